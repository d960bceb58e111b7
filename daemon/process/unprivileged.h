/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How a daemon that was started as root gives up its privileges. */

#include <sys/types.h>

#include "protocol/base/base.h"

struct user {
	uid_t uid;
	gid_t gid;
};

/* A root process that removes files when the daemon has ended, which only root can do. */
struct janitor {
	pid_t pid;  /* 0: there is none */
	int socket; /* closed at the daemon's end; -1 */
};

/* Keeps all users but root from tracing this process and reading its /proc files: it has clients' fds and the policy. */
void unprivileged_hide(void);
/*
 * Whose privileges are kept: those of the user with this name, for NULL of userevd, otherwise of nobody; without root, our own. To be
 * called once: a look-up that fails only now and then would have two answers. 0, or a negative errno after a line in the log.
 */
int unprivileged_find(const char *name, struct user *ret);

/*
 * To be called when everything is open that only root can open: permanently becomes the user, without any privilege. A janitor calls
 * `remove` when this process has ended. Does nothing if it is the current user. 0, or a negative errno after a line in the log.
 */
int unprivileged_become(const struct user *, struct janitor *, void (*remove)(void *), void *data);
/* At the end: waits until the janitor has removed everything. False: there is none. */
bool janitor_end(struct janitor *);
