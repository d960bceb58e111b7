/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/identity/proc.h"

#include <fcntl.h>
#include <stdio.h>

ssize_t proc_read(pid_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[64];
	size_t length = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((n = read(fd, ret + length, size - 1 - length)) > 0)
		length += (size_t)n;
	if (n < 0)
		return -errno;
	ret[length] = '\0';
	return (ssize_t)length;
}
