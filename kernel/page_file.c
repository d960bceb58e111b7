/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "kernel/user_events.h"

/*
 * A status page is a file without a name on a small file system of the keeper's own. What clients get was opened through a
 * second mount of it, which is read-only: to open, map or change it in any other way is EROFS or EACCES, for everybody, the
 * host's root in a container included. Our own fd is writable and can be mapped again after a restart.
 */

static int make_file(const struct mounts *mounts, const char *name, int *ret_client)
{
	_cleanup_(fd_closep) int fd = -1, client = -1;

	fd = openat(mounts->pages, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, WIRE_PAGE_BYTES) < 0)
		return -errno;
	client = openat(mounts->pages_read_only, name, O_RDONLY | O_CLOEXEC);
	if (client < 0)
		return -errno;
	*ret_client = fd_steal(&client);
	return fd_steal(&fd);
}

int page_file_new(const struct mounts *mounts, int *ret_fd, int *ret_client)
{
	static const char name[] = "page"; /* for a moment */
	int fd;

	fd = make_file(mounts, name, ret_client);
	/* Only if this has failed below once. */
	if (fd == -EEXIST && unlinkat(mounts->pages, name, 0) == 0)
		fd = make_file(mounts, name, ret_client);
	unlinkat(mounts->pages, name, 0);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}
