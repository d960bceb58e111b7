/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Requests about the embedded backend, which is a tracer itself. */

#include "daemon/connection/client.h"

struct daemon;

int handle_trace(struct client *, const struct message *);
int handle_tail(struct client *, const struct message *);
int handle_sync(struct client *, const struct message *);

/* Sends new records of the ring to all TAIL listings. */
void tails_continue(struct daemon *);
