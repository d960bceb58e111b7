/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* One recvmsg or sendmsg = one packet and its fds. */

#include <sys/socket.h>
#include <sys/types.h>

#include "protocol/fdset.h"

struct transport_from {
	bool known; /* the kernel told who sent it (SO_PASSCRED) */
	pid_t pid;
	uid_t uid;
};

/*
 * Sends one packet with copies of the fds, never raising SIGPIPE. 0 or a negative errno (-EAGAIN: the peer's queue is
 * full).
 */
int transport_send(int socket, const void *packet, size_t size, const int *fds, size_t n, int flags);

/*
 * The daemon's side: takes no fd, since there is room for the sender's credentials only and the kernel closes the rest.
 * The packet's size (0: the peer has gone), or -EAGAIN …; -EMSGSIZE where the packet is longer than the buffer, -EPROTO
 * where fds were attached.
 */
ssize_t transport_receive(int socket, void *packet, size_t size, struct transport_from *ret);

/* The client's side: takes at most WIRE_FDS_MAX fds, close-on-exec. */
ssize_t transport_receive_fds(int socket, void *packet, size_t size, struct fdset *ret, int flags);

/* Fills `ret` for connect() or bind(); -ENAMETOOLONG. */
struct sockaddr_un;
int transport_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_length);
