/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/epoll.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

bool epoll_is_full;

/* For the daemon, and for libev. */
__attribute__((visibility("default"))) int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (epoll_is_full && op == EPOLL_CTL_ADD) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}
