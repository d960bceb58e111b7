/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "daemon/connection/client.h"

/* EXPLAIN → ROWS: the decision about a registration, and the numbers; then a row for each level and each reserve. */
int handle_explain(struct client *, const struct message *);
