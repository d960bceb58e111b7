/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Where the daemon itself is the tracer: its switches and its records. */

#include "daemon/connection/client.h"

struct daemon;

int handle_trace(struct client *, const struct message *);
int handle_tail(struct client *, const struct message *);
int handle_sync(struct client *, const struct message *);

/* Whoever tails gets what is new in the ring. */
void tails_continue(struct daemon *);
