/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* All ways by which a holder of a data file might get around the guard. */

#include "tests/guard/attempt.h"

struct call {
	int fd;
	enum operation operation;
	unsigned manner;
	const char *event;
};

struct way {
	const char *name;
	int (*act)(void *call); /* 0, or the errno of the attempt; in a child of ours or in this process */
	bool in_child;
	unsigned manner;
	bool ioctls_only;
	bool nothing_to_change; /* it has no meaning for what is no ioctl and no lock */
	bool narrow;		/* a 32-bit program */
	bool nobody;		/* not the owner of the file */
	bool other_file;	/* opened once more */
	int never;		/* there is no such way: always this errno */
};

extern const struct way ways[];
extern const size_t n_ways;

/* 0, or the errno of the attempt. */
int try_way(const struct way *, int fd, enum operation, const char *event);
/* The kernel's answer if nothing is guarded. */
int unguarded_answer(const struct way *, enum operation);
/* Not every 64-bit kernel does. */
bool runs_narrow_programs(void);
/* MANNER_STATUS_PAGE on a kernel of that ABI. */
unsigned kernel_manner(void);
