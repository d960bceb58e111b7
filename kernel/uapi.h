/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Our own copies of the kernel's user_events ABI: the build machine may have other headers. All structs are packed. */

#include <stdint.h>
#include <sys/ioctl.h>

#include "protocol/base/base.h"

/* Linux 6.4 and later. */
struct uapi_register {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_address;
	uint64_t description;
	uint32_t index; /* out */
} __attribute__((packed));
_Static_assert(sizeof(struct uapi_register) == 28, "register");
_Static_assert(offsetof(struct uapi_register, enable_address) == 8, "register");
_Static_assert(offsetof(struct uapi_register, description) == 16, "register");
_Static_assert(offsetof(struct uapi_register, index) == 24, "register");

struct uapi_unregister {
	uint32_t size;
	uint8_t disable_bit;
	uint8_t zero;
	uint16_t zero2;
	uint64_t disable_address;
} __attribute__((packed));
_Static_assert(sizeof(struct uapi_unregister) == 16, "unregister");
_Static_assert(offsetof(struct uapi_unregister, disable_address) == 8, "unregister");

/* Linux 5.18 to 6.3. */
struct uapi_register_status {
	uint32_t size;
	uint64_t description;
	uint32_t bit;	/* out */
	uint32_t index; /* out */
} __attribute__((packed));
_Static_assert(sizeof(struct uapi_register_status) == 20, "register, status page");
_Static_assert(offsetof(struct uapi_register_status, description) == 4, "register, status page");
_Static_assert(offsetof(struct uapi_register_status, index) == 16, "register, status page");

/* Flags of uapi_register. */
enum { UAPI_PERSIST = 1 << 0, UAPI_MULTI_FORMAT = 1 << 1 };

/* An ioctl's number contains the size of a pointer, so 32-bit programs have other numbers. */
#define UAPI_IOCTL_REGISTER   _IOWR('*', 0, void *)
#define UAPI_IOCTL_DELETE     _IOW('*', 1, void *)
#define UAPI_IOCTL_UNREGISTER _IOW('*', 2, void *)

enum {
	UAPI_DESCRIPTION_BYTES = 512, /* with its NUL */
	UAPI_INDEX_BYTES = sizeof(uint32_t),
};
