// SPDX-License-Identifier: GPL-2.0-or-later

/*
 * native_speaker NAME: a program that knows user_events and nothing of us, as tracing libraries do it to the byte. It registers an event with
 * one number, and writes a record every tenth of a second while somebody traces it. It prints what it has got.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

struct user_reg {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_addr;
	uint64_t name_args;
	uint32_t write_index;
} __attribute__((packed));

static volatile uint32_t enabled;

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "native_event";
	char description[256];
	struct user_reg registration = { .size = sizeof(registration), .enable_size = sizeof(enabled) };
	uint32_t number = 0;
	int file = open("/sys/kernel/tracing/user_events_data", O_WRONLY);

	snprintf(description, sizeof(description), "%s u32 number", name);
	registration.enable_addr = (uint64_t)(uintptr_t)&enabled;
	registration.name_args = (uint64_t)(uintptr_t)description;
	if (file < 0 || ioctl(file, 0xC0082A00UL, &registration) < 0) {
		printf("%s: %s\n", file < 0 ? "open" : name, strerror(errno));
		return 1;
	}
	printf("%s: registered\n", name);
	fflush(stdout);
	for (;; usleep(100000)) {
		struct iovec parts[] = { { &registration.write_index, sizeof(registration.write_index) },
					 { &number, sizeof(number) } };

		if (enabled & 1 && writev(file, parts, 2) == sizeof(uint32_t) * 2)
			number++;
	}
}
