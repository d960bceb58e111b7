/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How many file descriptors may be used for clients and for their data files. */

#include "protocol/base/base.h"

struct registry;

/* Whether there are fds left for clients; the last ones are kept for admins and for ourselves. */
bool fds_are_left(const struct registry *);
/* How many data files there is room for, those included that linger. Asked each time, as the limit on fds is. */
uint32_t fds_for_files(void);
/* Whether so few fds are in use that some may be used for programs that have gone. */
bool fds_may_be_kept(const struct registry *);
