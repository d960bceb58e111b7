/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* HELLO → WELCOME with the tenant's status page. */
int handle_hello(struct client *, const struct message *);
