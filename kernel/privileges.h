/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Giving up privileges. */

#include "protocol/base/base.h"

/* The permitted capabilities, as a mask of 1 << CAP_…; 0 if the kernel does not tell. */
uint64_t privileges_held(void);
/* Gives up every capability for good except those of the mask, and keeps the user. 0, or a negative errno. */
int privileges_keep(uint64_t capabilities);
/* Becomes this user and group, for good. */
int privileges_become(uid_t uid, gid_t gid);
