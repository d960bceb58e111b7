/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* One recvmsg or sendmsg = one packet and its fds. */

#include <sys/socket.h>
#include <sys/types.h>

#include "protocol/fdset.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16: refuse fds to their sender */
#endif

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
 * From now on nobody can send fds to this socket (nor to those that are accepted from it). Where the kernel is too old for
 * that, still 0, and transport_fds_are_refused stays false.
 */
int transport_refuse_fds(int socket);
/* The kernel refuses fds to who would send them. What it says of one socket goes for all. Tests play an older kernel. */
extern bool transport_fds_are_refused;

/*
 * What is next in the queue, without taking it: 1 a packet, 0 the end, -EPROTO a packet with fds, or -EAGAIN …. Receiving a
 * packet with fds, even where there is no room for one, may be the last close of each, and that may take as long as their
 * sender likes. `room`: what the socket's options make the kernel tell with each packet, exactly.
 */
int transport_look(int socket, size_t room);

/*
 * The daemon's side: takes no fd. The packet's size (0: the peer has gone), or -EAGAIN …; -EMSGSIZE where the packet is
 * longer than the buffer, -EPROTO where fds are attached: the packet is still there then, and nothing behind it can be read.
 */
ssize_t transport_receive(int socket, void *packet, size_t size, struct transport_from *ret);
/* The same, and the packet is still there, until it is dropped: whoever comes after us finds what was not answered. */
ssize_t transport_peek(int socket, void *packet, size_t size, struct transport_from *ret);
int transport_drop(int socket);

/* The client's side: takes at most WIRE_FDS_MAX fds, close-on-exec, and all or none: -EPROTO. */
ssize_t transport_receive_fds(int socket, void *packet, size_t size, struct fdset *ret, int flags);
/*
 * For who can do with the first of them: `ret_lost` says that there were more than this process had room for. More than
 * anybody may send are -EPROTO all the same.
 */
ssize_t transport_receive_first_fds(int socket, void *packet, size_t size, struct fdset *ret, bool *ret_lost,
				    int flags);

/* Fills `ret` for connect() or bind(); -ENAMETOOLONG. */
struct sockaddr_un;
int transport_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_length);
