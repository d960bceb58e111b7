/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* ctl_tenants.c: what `tenants` and `top` have in common. */

#include "client/userevctl/output.h"
#include "client/userevctl/show/tenant_view.h"

#define TENANT_ORDERS_IN_WORDS "events, connections, refusals, lost, throttled or name"

/* The value of --sort; anything else ends the program. */
enum tenant_order ctl_tenant_order(const char *value);
/* A row with the name, as an object. */
void ctl_tenant_json(struct json *, const struct tenant_view *);
