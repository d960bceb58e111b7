/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* RELEASE → RELEASED: how many were the client's, and how many were not. */
int handle_release(struct client *, const struct message *);
