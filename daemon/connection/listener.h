/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A listening socket: accepts, identifies the peer, and backs off when there are no fds left. */

#include <ev.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/connection/client.h"

struct listener {
	struct connections *connections;
	int (*take)(struct listener *, int fd); /* takes over a connection that is no client's; NULL */
	int fd;
	enum client_socket socket;
	const char *path;
	bool handed_over; /* bound by another process, which owns its file */
	char handed_path[sizeof(struct sockaddr_un) - offsetof(struct sockaddr_un, sun_path)];
	struct statx file; /* the socket's, so that no other file is removed */
	ev_io w_accept;
	ev_timer w_backoff;
	uint64_t backoffs;
};

/* 0, or a negative errno: -EADDRINUSE if another process listens there. Makes the directory if its parent exists. */
int listener_init(struct listener *, struct connections *, const char *path, mode_t mode, enum client_socket);
/*
 * As listener_init(), with a listening socket that another process has bound, and whose file is not ours. If it fails the fd
 * is the caller's.
 */
int listener_take(struct listener *, struct connections *, int fd, enum client_socket);
/* Removes the socket's file if it is still ours. Safe on zeros. */
void listener_deinit(struct listener *);
/* Removes the socket's file alone, in a process that still may. Safe on zeros. */
void listener_remove_files(const struct listener *);
/* Accepts connections again at once, after a back-off, or when w_accept was stopped. Safe on zeros. */
void listener_resume(struct listener *);
