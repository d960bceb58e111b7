/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which client's request is handled next, and which tenants have to wait. scheduler.c explains. */

#include "daemon/connection/connections.h"

/* The client has sent a request, or goes on with its task. Nothing happens if it is in a queue already. */
void scheduler_add(struct client *);
/* Takes it out of its queue. Fine if it is in none. */
void scheduler_remove(struct client *);
/* Takes out the client whose turn it is; NULL: none may go on now. */
struct client *scheduler_next(struct connections *);

/* So many calls were submitted for the tenant, or have been answered. */
void scheduler_submitted(struct tenant *, size_t calls);
void scheduler_answered(struct connections *, struct tenant *, size_t calls);
