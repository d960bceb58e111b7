/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The fds that came with one packet. */

#include "protocol/protocol.h"

struct fdset {
	int fd[WIRE_FDS_MAX];
	size_t count;
};

/* Becomes the owner of `fd`. -ENOSPC: the set is full, and the caller remains the owner. */
int fdset_take(struct fdset *, int fd);
/* Makes the caller the owner of the fd at that position; -1 if there is none. */
int fdset_steal(struct fdset *, size_t position);
/* Closes the rest. Safe on an empty set, and twice. */
void fdset_deinit(struct fdset *);
