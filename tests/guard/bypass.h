/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Each operation that the holder of a data file might try, by each way. */

#include "tests/guard/ways.h"

#define FOREIGN "guard_foreign" /* an event of another program */

enum { BYPASSES_MAX = 256 };

struct bypass {
	const struct way *way;
	enum operation operation;
};

extern const char *const operation_names[OPERATIONS];
extern struct bypass bypasses[BYPASSES_MAX];
extern int n_bypasses;
extern int n_ioctl_bypasses; /* the first ones are */

/* Lists those that are possible on this machine. */
void bypasses_list(void);

/* Registers FOREIGN on a file of its own, which it returns. */
int make_foreign_event(void);
/* Tries it on the file, with an event of its own name: 0, or the errno. */
int try_bypass(const struct bypass *, int fd, char *ret_event, size_t size);
bool event_exists(const char *event);
