/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* WATCH → WATCHING, and CHANGED from then on when an event that the client holds is turned on or off. */
int handle_watch(struct client *, const struct message *);
