/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One connection: read a request, let it be handled, send the answer, and no second request before the first has left. */

#include "daemon/connection/connections.h"
#include "daemon/connection/reply.h"

struct entry_client;
struct peer;

void clients_init(struct connections *);
void clients_deinit(struct connections *);
/* Takes over the connection. 0, or a negative errno (and the fd is still the caller's). The tenant is NULL for control. */
int client_new(struct connections *, int fd, enum client_socket, const struct peer *, struct tenant *);
/* The same for a client of the last daemon. */
int client_restore(struct connections *, int fd, uint64_t number, const struct entry_client *, struct tenant *);
/* Marks it: it is freed at the end of this turn of the loop, so that the caller can go on. */
void client_close(struct client *);
/* Handles one request of the client, if it has one. */
void client_take_request(struct client *);
/* Handles requests of clients whose turn it is, at the end of each turn of the loop. */
void clients_take_requests(struct connections *);
/* Frees all that are marked. */
void clients_sweep(struct connections *);
/* Before the loop waits: it must not, while clients wait for their turn, or something is still to be freed. */
void clients_stay_awake(struct connections *);
/* Frees it at once; at the daemon's end. */
void client_free(struct client *);

/*
 * In a moment, when most programs have read what they were sent, and the shortest have ended: sends an answer for which too many fds
 * were in flight, waits until the client has read, and deposits its connection.
 */
void client_defer(struct client *);
/* Does that now, for most of them. */
void clients_do_deferred(struct connections *);
/* It has been welcomed: from now on there is no timeout for its next request. */
void client_greet(struct client *);

/* The client is not read until the task ends; task_end() returns the client, or NULL if it has left. */
void task_begin(struct client_task *, struct client *);
struct client *task_end(struct client_task *);
/* A part of the task is left for the client's next turn. */
void task_put_off(struct client_task *, void (*resume)(struct client_task *), void (*abandon)(struct client_task *));

/* The name of its command, which is read when it is first wanted. */
const char *client_comm(struct client *);

/* It has read all packets that it was sent. May free it. */
void client_has_read(struct client *);
/* Watches its fd according to its state, after a change of that. */
void client_watch(struct client *);
