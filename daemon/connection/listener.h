/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A listening socket: accepts, finds out who it is, and backs off when there are no fds left. */

#include <ev.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/connection/client.h"

struct listener {
	struct connections *connections;
	int (*take)(struct listener *, int fd); /* takes over a connection that is no client's; NULL */
	int fd;
	int held; /* accepted, but there were no fds left to find out who it is */
	enum client_socket socket;
	const char *path;
	bool handed_over; /* bound by somebody else, whose its file is */
	char handed_path[sizeof(struct sockaddr_un) - offsetof(struct sockaddr_un, sun_path)];
	bool made_directory; /* that the socket is in */
	struct statx file;   /* the socket's, so that nobody else's is removed */
	ev_io w_accept;
	ev_timer w_backoff;
	uint64_t backoffs;
};

/* 0, or a negative errno: -EADDRINUSE where somebody listens there already. Makes the directory if its parent exists. */
int listener_init(struct listener *, struct connections *, const char *path, mode_t mode, enum client_socket);
/* The same with a socket that somebody else has bound and listens, and whose file is not ours. The fd is the caller's if it fails. */
int listener_take(struct listener *, struct connections *, int fd, enum client_socket);
/* Removes the socket's file if it is still ours. Safe on zeros. */
void listener_deinit(struct listener *);
/* The same, and nothing else, for who may still remove them when we may not. Safe on zeros. */
void listener_remove_files(const struct listener *);
/* Takes nobody for now. */
void listener_pause(struct listener *);
/* Ends a pause at once. Safe on zeros. */
void listener_resume(struct listener *);
