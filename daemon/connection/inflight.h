/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Fds in flight: sent to a client that has not read the answer yet. inflight.c explains. */

#include "protocol/base/base.h"

struct client;
struct connections;
struct tenant;

/* 0 or a negative errno. */
int inflight_init(struct connections *);
/* Safe on zeros. */
void inflight_deinit(struct connections *);

/* Counts n fds that are about to be sent to the client. */
void inflight_add(struct client *, size_t n);
/* They were not sent after all. */
void inflight_undo(struct client *, size_t n);
/* A client of the last daemon: counts a non-empty queue as one fd, since the number is unknown. */
void inflight_restore(struct client *);
/* Forgets the client's fds, before its connection is closed. */
void inflight_forget(struct client *);
/* Asks the kernel whether the client has fds in flight, and forgets those that it has read. */
bool inflight_remains(struct client *);

/*
 * client_has_read() will be called when the client has read; and a client that hangs up while it waits in a queue, where the loop does
 * not watch its fd, is closed. False: there is no room in epoll.
 */
bool inflight_watch(struct client *);

/* Whether the tenant may be sent more fds. Asks about clients that may have read, if there seems to be no room. */
bool inflight_has_room(struct connections *, const struct tenant *);
