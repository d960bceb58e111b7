/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What root gives up. */

#include "protocol/base/base.h"

/* Those that it could use: a mask of 1 << CAP_…; 0 where the kernel does not say. */
uint64_t privileges_held(void);
/* Gives up every capability for good, but for those of the mask (1 << CAP_…), and stays whoever it is. 0, or a negative errno. */
int privileges_keep(uint64_t capabilities);
/* Becomes that user and group, for good. */
int privileges_become(uid_t uid, gid_t gid);
