/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a daemon that was started as root does about it. */

#include <sys/types.h>

struct daemon;

/* Nobody who is not root may look into this process, whose clients' fds and policy are theirs alone. */
void unprivileged_hide(void);
/* Whom we shall have become: ourselves where we are not root, or there is no such user. */
uid_t unprivileged_user(const struct daemon *);

/*
 * With everything open that only root may open: becomes --user=, without any privilege, for good. What only root can remove at
 * the end is left to a process that does just that. Nothing where we are not root, or shall stay it. 0, or a negative errno
 * after a line in the log.
 */
int unprivileged_become(struct daemon *);
/* The end: waits until the sockets' files are gone. */
void unprivileged_end(struct daemon *);
