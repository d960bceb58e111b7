/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/fdset.h"

int fdset_take(struct fdset *set, int fd)
{
	if (set->count == ARRAY_SIZE(set->fd))
		return -ENOSPC;
	set->fd[set->count++] = fd;
	return 0;
}

int fdset_steal(struct fdset *set, size_t position)
{
	if (position >= set->count)
		return -1;
	return fd_steal(&set->fd[position]);
}

void fdset_deinit(struct fdset *set)
{
	for (size_t i = 0; i < set->count; i++)
		set->fd[i] = fd_close(set->fd[i]);
	set->count = 0;
}
