/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* All cases that there are: everything that the holder of a data file might do with it, by every way. */

#include "tests/guard/ways.h"

#define FOREIGN "guard_foreign" /* an event of somebody else's */

enum { BYPASSES_MAX = 256 };

struct bypass {
	const struct way *way;
	enum operation operation;
};

extern const char *const operation_names[OPERATIONS];
extern struct bypass bypasses[BYPASSES_MAX];
extern int n_bypasses;
extern int n_ioctl_bypasses; /* the first ones are */

/* Those that this machine can be tried with. */
void bypasses_list(void);

/* Somebody has it, by his own right: his file. */
int make_foreign_event(void);
/* Tries it on the file, with an event of its own name: 0, or the errno. */
int try_bypass(const struct bypass *, int fd, char *ret_event, size_t size);
bool event_exists(const char *event);
