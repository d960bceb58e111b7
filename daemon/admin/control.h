/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The listings of the control socket. */

#include "daemon/connection/client.h"

int handle_status(struct client *, const struct message *);
int handle_events(struct client *, const struct message *);
int handle_tenants(struct client *, const struct message *);
