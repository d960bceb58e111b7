/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Answers, and notifications of changed events: sent at once, or as soon as there is room. */

#include "daemon/connection/connections.h"

/*
 * Begins the answer to the request with that serial, in the daemon's one buffer for answers: fill it, then client_send().
 */
struct packet *client_answer(struct client *, uint16_t kind, uint32_t serial, uint8_t flags);

/* Sends what client_answer() began, with copies of the fds, now or as soon as there is room. */
void client_send(struct client *, const int *fds, size_t n);

/* Ends a connection after our last packet, which the other side can still read. The fd stays the caller's. */
void connection_end(struct connections *, int fd);
/* Sends the reason in one last ERROR packet and disconnects. */
void client_disconnect(struct client *, uint32_t serial, uint32_t refusal, const char *format, ...) _printf_(4, 5);
/* As client_disconnect(), for a refusal that has already been counted and logged. */
void client_disconnect_counted(struct client *, uint32_t serial, uint32_t refusal, const char *sentence);

/* An event of this client changed: sends CHANGED at the end of this turn of the loop. */
void client_note_change(struct client *, uint32_t bit);
/* Any event may have changed. */
void client_note_all(struct client *);
/* Sends CHANGED to all clients with noted changes. */
void clients_flush_changes(struct connections *);

/* The request has been answered, or needs no answer. */
void client_end_request(struct client *);
/* There is room in the client's socket again. */
void client_on_writable(struct client *);
/* Frees the answer that waits. */
void client_drop_answer(struct client *);
