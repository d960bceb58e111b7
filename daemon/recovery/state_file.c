/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/recovery/state_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

enum { FILE_BYTES_MAX = 64 << 20 };

/* Written by root, or by a user that the daemon is or becomes, and by no other. */
static bool state_file_is_trusted(const struct stat *status, uid_t user)
{
	return (status->st_uid == 0 || status->st_uid == geteuid() || status->st_uid == user) &&
	       !(status->st_mode & (S_IWGRP | S_IWOTH));
}

int state_file_read(const char *directory, const char *name, uid_t user, char **ret, size_t *ret_size,
		    struct stat *ret_status)
{
	_cleanup_(fd_closep) int parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	_cleanup_(freep) char *bytes = NULL;
	ssize_t n;

	if (parent < 0 || fstat(parent, ret_status) < 0)
		return -errno;
	if (!state_file_is_trusted(ret_status, user))
		return -EPERM;
	fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret_status) < 0)
		return -errno;
	if (!S_ISREG(ret_status->st_mode) || !state_file_is_trusted(ret_status, user))
		return -EPERM;
	if (ret_status->st_size > FILE_BYTES_MAX)
		return -EFBIG;
	bytes = malloc((size_t)ret_status->st_size + 1);
	if (!bytes)
		return -ENOMEM;
	n = read(fd, bytes, (size_t)ret_status->st_size);
	if (n < 0)
		return -errno;
	bytes[n] = '\0';
	*ret = steal_pointer(bytes);
	*ret_size = (size_t)n;
	return 0;
}

int state_file_write(const char *directory, const char *name, const char *bytes, size_t size, bool sync)
{
	_cleanup_(fd_closep) int parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char new_name[NAME_MAX + 1];
	ssize_t n;
	int r;

	if (parent < 0)
		return -errno;
	snprintf(new_name, sizeof(new_name), "%s.new", name);
	unlinkat(parent, new_name, 0);
	fd = openat(parent, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	n = write(fd, bytes, size);
	r = n < 0 || (sync && fsync(fd) < 0) ? -errno : (size_t)n < size ? -ENOSPC : 0;
	return r == 0 && renameat(parent, new_name, parent, name) < 0 ? -errno : r;
}
