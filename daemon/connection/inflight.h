/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Fds in flight: sent to a client that has not read the answer yet. inflight.c explains. */

#include "protocol/base/base.h"

struct client;
struct connections;
struct tenant;

/* Counts n fds that are about to be sent to the client. */
void inflight_add(struct client *, size_t n);
/* They were not sent after all. */
void inflight_undo(struct client *, size_t n);
/* A client of the last daemon: counts a non-empty queue as one fd, since the number is unknown. */
void inflight_restore(struct client *);
/* Asks the kernel whether the client has fds in flight, and forgets those that it has read. */
bool inflight_remains(struct client *);

/*
 * Waits until the client has read them: then it may be read again, or is freed if it has ended. A client that hangs up is closed. False:
 * there is no room in epoll.
 */
bool inflight_await(struct client *);

/* Whether the tenant may be sent more fds. Asks about clients that may have read, if there seems to be no room. */
bool inflight_has_room(struct connections *, const struct tenant *);
