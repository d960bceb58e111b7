/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A small owned set of fds: what came with one packet. */

#include "protocol/protocol.h"

struct fdset {
	int fd[WIRE_FDS_MAX];
	size_t count;
};

/* Becomes the owner of `fd`; -ENOSPC (and not the owner) where the set is full. */
int fdset_take(struct fdset *, int fd);
/* Gives one up: the caller owns it now; -1 where there is none. */
int fdset_steal(struct fdset *, size_t position);
/* Closes whatever is left. Safe on an empty set, and twice. */
void fdset_deinit(struct fdset *);
