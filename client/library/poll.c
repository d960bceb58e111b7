/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For programs with an event loop: one fd that stays what it is whatever becomes of the connection, since who polls a file
 * loses it when another is put in its place. It is an epoll of the one that packets come from now.
 */

#include <sys/epoll.h>

#include "client/library/library.h"

void poll_follow(struct userev *userev, int fd)
{
	struct epoll_event readable = { .events = EPOLLIN };

	if (userev->poll_fd < 0)
		return;
	if (userev->followed >= 0)
		epoll_ctl(userev->poll_fd, EPOLL_CTL_DEL, userev->followed, NULL);
	userev->followed = fd;
	if (fd >= 0)
		epoll_ctl(userev->poll_fd, EPOLL_CTL_ADD, fd, &readable);
}

static int poll_fd_open(struct userev *userev)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -errno;
	userev->poll_fd = fd_out_of_the_way(fd);
	userev->followed = -1;
	if (userev->up || userev->candidate >= 0)
		poll_follow(userev, connection_fd(userev));
	return 0;
}

_public_ int userev_fd(struct userev *userev)
{
	ENTER_LIBRARY;
	int r = 0;

	userev = library_meant(userev);
	if (!userev)
		return -ENOENT;
	if (userev->poll_fd < 0)
		r = poll_fd_open(userev);
	return r < 0 ? r : userev->poll_fd;
}

_public_ int userev_poll(struct userev *userev, int timeout_ms)
{
	ENTER_LIBRARY;

	refusal_set("", 0);
	userev = library_meant(userev);
	if (!userev)
		return 0;
	return connection_advance(userev, timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms);
}

_public_ int userev_wait(int timeout_ms)
{
	return userev_poll(NULL, timeout_ms);
}
