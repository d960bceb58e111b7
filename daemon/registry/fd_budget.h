/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Whether there are file descriptors left for clients and for their data files. */

#include "protocol/base/base.h"

struct registry;

/* Whether there are fds left for clients; the last ones are kept for admins and for ourselves. */
bool fd_budget_has_room(const struct registry *);
/* Whether so few fds are in use that some may be used for programs that have gone. */
bool fd_budget_may_keep(const struct registry *);
