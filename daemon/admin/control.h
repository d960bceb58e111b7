/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The admins' socket: what there is. */

#include "daemon/connection/client.h"

int handle_status(struct client *, const struct message *);
int handle_events(struct client *, const struct message *);
int handle_tenants(struct client *, const struct message *);

/* Whether a listing may be begun on this connection; says so where not. */
bool control_may_list(struct client *, uint32_t serial, bool wants_tracer);
/* Unlike a client's, an admin's connection survives a refusal. */
void control_refuse(struct client *, uint32_t serial, uint32_t refusal, const char *format, ...) _printf_(4, 5);
