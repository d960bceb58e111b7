/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Operations that a holder of a data file might try, beside writing. For programs of 64 and of 32 bits. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kernel/uapi.h"

enum operation {
	REGISTER_NEW,
	REGISTER_FOREIGN, /* an event of another program */
	DELETE_FOREIGN,
	UNREGISTER,
	UNLOCK,
	CHMOD,
	CHOWN,
	OPERATIONS,
	IOCTLS = UNLOCK, /* the first ones are */
};

enum manner {
	MANNER_HIGH_BITS = 1 << 0,    /* which the kernel ignores */
	MANNER_WIDE_NUMBERS = 1 << 1, /* of a 64-bit program, also in a 32-bit one */
	MANNER_STATUS_PAGE = 1 << 2,  /* to a kernel of that ABI */
};

static inline unsigned long attempt_number(enum operation operation, unsigned manner)
{
	static const unsigned long numbers[IOCTLS] = {
		[REGISTER_NEW] = UAPI_IOCTL_REGISTER,
		[REGISTER_FOREIGN] = UAPI_IOCTL_REGISTER,
		[DELETE_FOREIGN] = UAPI_IOCTL_DELETE,
		[UNREGISTER] = UAPI_IOCTL_UNREGISTER,
	};
	static const unsigned long wide_numbers[IOCTLS] = {
		[REGISTER_NEW] = 0xc0082a00,
		[REGISTER_FOREIGN] = 0xc0082a00,
		[DELETE_FOREIGN] = 0x40082a01,
		[UNREGISTER] = 0x40082a02,
	};

	return (manner & MANNER_WIDE_NUMBERS) ? wide_numbers[operation] : numbers[operation];
}

/* The argument of the ioctl, in static memory. */
static inline void *attempt_argument(enum operation operation, unsigned manner, const char *event)
{
	static uint64_t words[64]; /* none for two events; the first for none */
	static unsigned last;
	static char description[UAPI_DESCRIPTION_BYTES];
	static struct uapi_register request;
	static struct uapi_register_status status_request;
	static struct uapi_unregister goodbye;

	if (operation == DELETE_FOREIGN) {
		snprintf(description, sizeof(description), "%s", event);
		return description;
	}
	if (operation == UNREGISTER) {
		goodbye = (struct uapi_unregister){ .size = sizeof(goodbye), .disable_address = (uintptr_t)words };
		return &goodbye;
	}
	snprintf(description, sizeof(description), "%s u32 value", event);
	if (manner & MANNER_STATUS_PAGE) {
		status_request = (struct uapi_register_status){ .size = sizeof(status_request),
								.description = (uintptr_t)description };
		return &status_request;
	}
	request = (struct uapi_register){ .size = sizeof(request),
					  .enable_size = sizeof(uint32_t),
					  .enable_address = (uintptr_t)&words[++last % 64],
					  .description = (uintptr_t)description };
	return &request;
}

static inline int attempt_ioctl(int fd, enum operation operation, unsigned manner, const char *event)
{
	unsigned long number = attempt_number(operation, manner);

#if __SIZEOF_LONG__ == 8
	if (manner & MANNER_HIGH_BITS)
		number |= 0x5a5a5a5a00000000;
#endif
	return (int)syscall(SYS_ioctl, fd, number, attempt_argument(operation, manner, event));
}

static inline int attempt_unlock(int fd, unsigned manner)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	unsigned long command = F_OFD_SETLK;

#if __SIZEOF_LONG__ == 8
	if (manner & MANNER_HIGH_BITS)
		command |= 0x5a5a5a5a00000000;
	return (int)syscall(SYS_fcntl, fd, command, &lock);
#else
	(void)manner;
	return fcntl(fd, (int)command, &lock);
#endif
}

/* To mode and owner that the file has already, so that a successful attempt changes nothing. */
static inline int attempt_change(int fd, enum operation operation)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return -1;
	return operation == CHMOD ? fchmod(fd, status.st_mode & 07777) : fchown(fd, geteuid(), (gid_t)-1);
}

/* 0, or the errno. `event`: the name of the new one, or of the foreign one. */
static inline int attempt(int fd, enum operation operation, unsigned manner, const char *event)
{
	int r;

	if (operation < IOCTLS)
		r = attempt_ioctl(fd, operation, manner, event);
	else if (operation == UNLOCK)
		r = attempt_unlock(fd, manner);
	else
		r = attempt_change(fd, operation);
	return r < 0 ? errno : 0;
}
