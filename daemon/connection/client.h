/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One connection: read a request, let it be handled, send the answer, and no second request before the first has left. */

#include "daemon/connection/connections.h"

struct entry_client;

void clients_init(struct connections *);
/* In each turn of the loop, first: what it has found of their sockets. */
void clients_take_events(void);
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

/* The name of its command, which is read when it is first wanted. */
const char *client_comm(struct client *);

/* Watches its fd according to its state, after a change of that. */
void client_watch(struct client *);

/* --- reply.c: answers, and notifications of changed events: sent at once, or as soon as there is room --- */

/*
 * Begins the answer to the request with that serial, in the daemon's one buffer for answers: fill it, then client_send().
 */
struct packet *client_answer(struct client *, uint16_t kind, uint32_t serial, uint8_t flags);

/* Sends what client_answer() began, with copies of the fds, now or as soon as there is room. */
void client_send(struct client *, const int *fds, size_t n);

/* Ends a connection after our last packet, which the other side can still read. The fd stays the caller's. */
void connection_end(struct connections *, int fd);
/*
 * Ends a connection, and has another thread read whatever was sent to us: the peer's own end may be among the fds there, and stay open as
 * long as they are unread. The fd stays the caller's. False: no fd is left.
 */
bool connection_empty(int fd);
/* Sends the reason in one last ERROR packet and disconnects. */
void client_disconnect(struct client *, uint32_t serial, uint32_t refusal, const char *format, ...) _printf_(4, 5);
/* As client_disconnect(), for a refusal that has already been counted and logged. */
void client_disconnect_counted(struct client *, uint32_t serial, uint32_t refusal, const char *sentence);

/* An event of this client changed: sends CHANGED at the end of this turn of the loop. */
void client_note_change(struct holder *, uint32_t bit);
/* Any event may have changed. */
void client_note_all(struct client *);
/* Its tenant has a new trace: sends TRACED then. */
void client_note_trace(struct holder *, unsigned slot);
/* Sends CHANGED and TRACED to all clients for which something was noted. */
void clients_flush_notes(struct connections *);
/* It has read what it was sent. */
void client_note_read(struct client *);
void client_drop_notes(struct client *);

/* The request has been answered, or needs no answer. */
void client_end_request(struct client *);
/* There is room in the client's socket again. */
void client_on_writable(struct client *);
/* Frees the answer that waits. */
void client_drop_answer(struct client *);

/* --- deadlines.c: a client that sends no HELLO, or does not read its answers, is disconnected after a timeout --- */

void deadlines_init(struct connections *);
/* Begins the client's time, unless it runs already. Admins have no deadline. */
void deadline_set(struct client *);
void deadline_clear(struct client *);
