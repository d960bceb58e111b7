/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Whose request is next: tenants take turns, and so do the clients of each. turns.c explains. */

#include "daemon/registry/tenant.h"

/* So many of its siblings have begun something long, as it has, that it goes on before others begin. */
bool turns_is_urgent(const struct client *);
/* The client has something to say. Nothing happens if it is waiting for its turn already. */
void turns_add(struct client *);
/* It says nothing any more. Fine if it was not waiting. */
void turns_remove(struct client *);
/* Takes out whose turn it is; NULL where nobody waits. */
struct client *turns_next(struct tenant_queue *);
