/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a daemon that was started as root does about it. */

struct daemon;

/*
 * With everything open that only root may open: becomes --user=, without any privilege, for good. What only root can remove at
 * the end is left to a process that does just that. Nothing where we are not root, or shall stay it. 0, or a negative errno
 * after a line in the log.
 */
int unprivileged_become(struct daemon *);
/* The end: waits until the sockets' files are gone. */
void unprivileged_end(struct daemon *);
