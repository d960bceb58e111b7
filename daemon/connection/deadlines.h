/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client that sends no HELLO, or does not read its answers, is disconnected after a timeout. */

#include "daemon/connection/connections.h"

void deadlines_init(struct connections *);
void deadlines_deinit(struct connections *);
/* Begins the client's time, unless it runs already. Admins have no deadline. */
void deadline_set(struct client *);
void deadline_clear(struct client *);
