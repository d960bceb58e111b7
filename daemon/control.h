/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The admins' socket: what there is, and the switches of a daemon that is itself the tracer. */

#include "daemon/client.h"

int handle_status(struct client *, const struct message *);
int handle_events(struct client *, const struct message *);
int handle_tenants(struct client *, const struct message *);
int handle_trace(struct client *, const struct message *);
int handle_tail(struct client *, const struct message *);
int handle_sync(struct client *, const struct message *);

/* Whoever tails gets what is new in the ring. */
void control_records(struct daemon *);
