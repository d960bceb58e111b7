/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program's event loop needs an fd that stays the same while connections come and go: an epoll instance that watches the fd of
 * the current connection.
 */

#include <sys/epoll.h>

#include "client/library/clock.h"
#include "client/library/event.h"
#include "client/library/lock.h"
#include "client/library/module.h"
#include "client/library/poll.h"
#include "client/library/public.h"
#include "client/library/session.h"

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

_public_ int userev_fd(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = module_resolve(userev);
	if (!userev)
		return -ENOENT;
	if (userev->poll_fd < 0) {
		int fd = epoll_create1(EPOLL_CLOEXEC);

		if (fd < 0)
			return -errno;
		userev->poll_fd = file_move_up(fd);
		userev->followed = -1;
		poll_follow(userev, userev->fd);
	}
	return userev->poll_fd;
}

_public_ int userev_poll(struct userev *userev, int timeout_ms)
{
	LOCK_LIBRARY;

	event_set_refusal("", 0);
	userev = module_resolve(userev);
	if (!userev)
		return 0;
	return session_advance(userev, timeout_ms < 0 ? INT64_MAX : clock_ms() + timeout_ms);
}

_public_ int userev_wait(int timeout_ms)
{
	return userev_poll(NULL, timeout_ms);
}
