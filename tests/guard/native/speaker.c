// SPDX-License-Identifier: GPL-2.0-or-later

/*
 * native_speaker NAME…: a program that knows user_events and nothing of us, as tracing libraries do it to the byte. It registers an event
 * of each name, with one number, and prints what it has got. Then it writes a record of each every tenth of a second while
 * somebody traces it. The other programs of this folder do the same in other languages.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS = 64 };

struct user_reg {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_addr;
	uint64_t name_args;
	uint32_t write_index;
} __attribute__((packed));

static volatile uint32_t enabled[EVENTS];
static struct user_reg events[EVENTS];
static int file;

static void register_one(int i, const char *name)
{
	char description[256];

	snprintf(description, sizeof(description), "%s u32 number", name);
	events[i] = (struct user_reg){ .size = sizeof(events[i]),
				       .enable_size = sizeof(enabled[i]),
				       .enable_addr = (uint64_t)(uintptr_t)&enabled[i],
				       .name_args = (uint64_t)(uintptr_t)description };
	if (ioctl(file, 0xC0082A00UL, &events[i]) < 0)
		printf("%s: error %d\n", name, errno);
	else
		printf("%s: registered\n", name);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	file = open("/sys/kernel/tracing/user_events_data", O_WRONLY);
	if (file < 0) {
		printf("open: error %d\n", errno);
		return 1;
	}
	for (int i = 1; i < argc && i < EVENTS; i++)
		register_one(i, argv[i]);
	for (uint32_t number = 0;; number++) {
		for (int i = 1; i < argc && i < EVENTS; i++) {
			struct iovec parts[] = { { &events[i].write_index, 4 }, { &number, 4 } };

			if (enabled[i] & 1 && writev(file, parts, 2) < 0)
				printf("writev: error %d\n", errno);
		}
		usleep(100000);
	}
}
