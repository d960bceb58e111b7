/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/listen.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "protocol/transport.h"

enum { BACKLOG = 16 };

/*
 * A file beside the socket shows whether a keeper listens: a connection would make it count a daemon that ended. The lock is this
 * process's alone, so it ends before its children, and the file stays open.
 */
static int lock_path(const char *path)
{
	const struct flock lock = { .l_type = F_WRLCK };
	char name[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 8];
	int fd;

	snprintf(name, sizeof(name), "%s.lock", path);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETLK, &lock) == 0)
		return 0;
	fd_close(fd);
	return -EADDRINUSE;
}

/* No connection is possible before listen(). */
static int bind_path(int fd, const char *path, uid_t owner)
{
	struct sockaddr_un address;
	socklen_t length;
	int r = transport_address(path, &address, &length);

	if (r == 0)
		r = lock_path(path);
	if (r < 0)
		return r;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address, length) < 0 || chmod(path, 0600) < 0 ||
	    chown(path, owner, (gid_t)-1) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

int keeper_listen(const char *path, uid_t owner, int *ret)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : bind_path(fd, path, owner);

	if (r == 0)
		*ret = fd_steal(&fd);
	return r;
}
