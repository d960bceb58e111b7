/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which client's request is handled next, and which tenants have to wait. scheduler.c explains. */

#include "daemon/connection/connections.h"

void scheduler_init(struct connections *);
void scheduler_deinit(struct connections *);

/* The client has something to say, or goes on with its task. Nothing happens if it is in a queue already. */
void scheduler_add(struct client *);
/* Takes it out of its queue. Fine if it is in none. */
void scheduler_remove(struct client *);
/* Takes the client out whose turn it is; NULL: there is none that may go on now. */
struct client *scheduler_next(struct connections *);

/* The tenant has made a request: it takes a token. */
void scheduler_charge(struct tenant *);
/* The kernel was asked so much for the tenant, or has answered it. */
void scheduler_submitted(struct tenant *, size_t calls);
void scheduler_answered(struct connections *, struct tenant *, size_t calls);
