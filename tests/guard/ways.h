/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The ways by which somebody might get around the guard. */

#include "tests/guard/attempt.h"

struct way {
	const char *name;
	/* 0, or the errno of the attempt. */
	int (*attempt)(int fd, enum operation, const char *event);
	bool ioctls_only;
	bool nothing_to_change; /* it has no meaning for what is no ioctl and no lock */
	bool narrow;		/* a 32-bit program */
	bool nobody;		/* not the owner of the file */
	bool other_file;	/* opened once more */
	int never;		/* there is no such way: always this errno */
};

extern const struct way ways[];
extern const size_t n_ways;

/* What the kernel says to this where nothing is guarded. */
int unguarded_answer(const struct way *, enum operation);
/* Not every 64-bit kernel does. */
bool runs_narrow_programs(void);
/* MANNER_STATUS_PAGE, on such a kernel. */
unsigned kernel_manner(void);
