/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* QUERY → ACCOUNT: what the client's tenant holds, its maximum, and the records it has lost. */
int handle_query(struct client *, const struct message *);
/* LOST: the library's count of records that found no room. */
int handle_lost(struct client *, const struct message *);
