/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The limit on file descriptors, and how it is divided. Asked each time, as an admin may change it (prlimit). */

#include <sys/resource.h>

#include "protocol/base/base.h"

rlim_t fds_limit(void);
/* The part that is kept for admins and for the daemon itself. */
rlim_t fds_own(rlim_t limit);
/* How many data files there is room for, those included that linger. */
uint32_t fds_for_files(void);
