/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* One recvmsg or sendmsg = one packet and its fds. */

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "protocol/fdset.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16: refuse fds to their sender */
#endif

struct transport_from {
	bool known; /* the kernel has given the sender (SO_PASSCRED) */
	pid_t pid;
	uid_t uid;
};

/*
 * Sends one packet with copies of the fds, never raising SIGPIPE. 0 or a negative errno (-EAGAIN: the peer's queue is
 * full).
 */
int transport_send(int socket, const void *packet, size_t size, const int *fds, size_t n, int flags);

/*
 * From now on the kernel refuses fds that are sent to this socket, or to sockets that are accepted from it. If the kernel is too old, still
 * returns 0, and transport_fds_are_refused stays false.
 */
int transport_refuse_fds(int socket);
/* The kernel supports that: known from the first socket. Tests set it to false. */
extern bool transport_fds_are_refused;

/*
 * Looks at the next packet without taking it: 1 a packet, 0 the end, -EPROTO a packet with fds, or -EAGAIN …. Receiving a packet with fds,
 * even without room for them, may be the last close of each, which may take as long as their sender likes. `room`: the exact size of what
 * the socket's options add to each packet.
 */
int transport_look(int socket, size_t room);

/*
 * For the daemon: takes no fds. Returns the packet's size (0: the peer has gone), or -EAGAIN …; -EMSGSIZE if the packet is longer than the
 * buffer; -EPROTO if fds are attached: then the packet is still in the queue, and nothing behind it can be read.
 */
ssize_t transport_receive(int socket, void *packet, size_t size, struct transport_from *ret);
/* The same, but the packet stays in the queue until it is dropped: the next daemon finds requests that were not answered. */
ssize_t transport_peek(int socket, void *packet, size_t size, struct transport_from *ret);
int transport_drop(int socket);

/* For clients: takes up to WIRE_FDS_MAX fds, close-on-exec. If there is no room for all, takes none and returns -EPROTO. */
ssize_t transport_receive_fds(int socket, void *packet, size_t size, struct fdset *ret, int flags);
/* Takes the first fds if there is no room for all, and sets `ret_lost`. More than WIRE_FDS_MAX are still -EPROTO. */
ssize_t transport_receive_first_fds(int socket, void *packet, size_t size, struct fdset *ret, bool *ret_lost,
				    int flags);

/* Fills `ret` for connect() or bind(); -ENAMETOOLONG. */
int transport_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_length);
