/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * native_event_pipe NAME SOCKET: a collector that asks the daemon at SOCKET for the kernel's file, and passes it to another process, as
 * diagnostics of .NET do; and that process, which knows nothing of us and opens nothing, registers NAME as EventPipe does:
 * on the file that it was given, with bit 31, and with three arrays in a record.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/userev.h"

struct __attribute__((packed)) user_reg {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_addr;
	uint64_t name_args;
	uint32_t write_index;
};

/* What follows the index in a record: places are length << 16 and offset from behind the field. */
struct __attribute__((packed)) record {
	uint8_t version;
	uint16_t event_id;
	uint32_t extension, payload, meta;
	uint8_t bytes[4];
};

static volatile uint32_t enabled;

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void give(int socket, int file)
{
	char byte = 0;
	union control control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec part = { &byte, 1 };
	const struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};

	memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
	if (sendmsg(socket, &message, 0) < 0)
		perror("sendmsg");
}

static int take(int socket)
{
	char byte;
	union control control;
	struct iovec part = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	int file = -1;

	if (recvmsg(socket, &message, 0) == 1 && message.msg_controllen > 0)
		memcpy(&file, CMSG_DATA(&control.header), sizeof(file));
	return file;
}

static void event_pipe(int file, const char *name)
{
	char description[256];
	struct user_reg registration = { .size = sizeof(registration),
					 .enable_bit = 31,
					 .enable_size = sizeof(enabled),
					 .enable_addr = (uintptr_t)&enabled,
					 .name_args = (uintptr_t)description };
	struct record record = { .version = 1, .extension = 12, .payload = 4 << 16 | 4, .meta = 4, .bytes = "ping" };

	snprintf(description, sizeof(description),
		 "%s u8 version; u16 event_id; __rel_loc u8[] extension; __rel_loc u8[] payload; __rel_loc u8[] meta",
		 name);
	if (ioctl(file, 0xC0082A00UL, &registration) < 0)
		printf("%s: error %d\n", name, errno);
	else
		printf("%s: registered\n", name);
	for (;; usleep(100000)) {
		const struct iovec parts[] = { { &registration.write_index, 4 }, { &record, sizeof(record) } };

		record.event_id++;
		if (enabled & UINT32_C(1) << 31 && writev(file, parts, 2) < 0)
			printf("writev: error %d\n", errno);
	}
}

int main(int argc, char **argv)
{
	int sockets[2], file;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
		return 2;
	if (fork() == 0)
		event_pipe(take(sockets[1]), argv[1]);
	file = userev_native_file(argv[2]);
	if (file < 0)
		printf("%s: %s: %s\n", argv[1], strerror(-file), userev_refusal());
	else
		give(sockets[0], file);
	return pause();
}
