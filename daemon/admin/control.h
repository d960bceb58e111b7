/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The requests of the control socket. */

#include "daemon/connection/client.h"

/* One row; one for each tenant; and rows of text. */
extern const struct listing_kind status_listing, tenants_listing, metrics_listing, silences_listing;
/* A row for each event. */
int handle_events(struct client *, const struct message *);
/* The decision about a registration, and the numbers; then a row for each level and each reserve. */
int handle_explain(struct client *, const struct message *);
/* One row, when the kernel has deleted a persistent event. */
int handle_delete(struct client *, const struct message *);
/* Rows of what is muted, blocked, or on for some tenants alone from now on, or no more. */
int handle_silence(struct client *, const struct message *);
/* A row for each problem, and one with the outcome. */
int handle_reload(struct client *, const struct message *);

/* About the embedded backend, which is a tracer itself. */
int handle_trace(struct client *, const struct message *);
int handle_tail(struct client *, const struct message *);
int handle_sync(struct client *, const struct message *);

struct daemon;
/* Sends new records of the ring to all TAIL listings. */
void tails_continue(struct daemon *);
