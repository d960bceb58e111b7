/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* REGISTER → REGISTERED: an answer to each event. */
int handle_register(struct client *, const struct message *);
