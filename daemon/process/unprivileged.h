/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a daemon that was started as root does about it. */

#include <sys/types.h>

#include "protocol/base/base.h"

/* A process of root's that removes, once the daemon has ended, what only root can remove. */
struct janitor {
	pid_t pid; /* 0: there is none */
	int pipe;  /* closed at the daemon's end; -1 */
};

/* Nobody who is not root may look into this process, whose clients' fds and policy are theirs alone. */
void unprivileged_hide(void);
/* The uid after unprivileged_become(), with --user=NAME or NULL: our own where we are not root, or there is no such user. */
uid_t unprivileged_user(const char *name);

/*
 * With everything open that only root may open: becomes the user, without any privilege, for good. A janitor calls `remove` when
 * this process has ended. Does nothing where we are not root, or shall stay root. 0, or a negative errno after a line in the log.
 */
int unprivileged_become(const char *name, struct janitor *, void (*remove)(void *), void *data);
/* At the end: waits until the janitor has removed everything. False: there is none. */
bool janitor_end(struct janitor *);
