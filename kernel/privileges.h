/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Giving up privileges. */

#include <linux/capability.h>

#include "protocol/base/base.h"

#ifndef CAP_BPF
#define CAP_PERFMON 38
#define CAP_BPF	    39
#endif

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The permitted capabilities, as a mask; 0 if the kernel does not tell. */
uint64_t privileges_held(void);
/* Gives up every capability for good except those of the mask, and keeps the user. 0, or a negative errno. */
int privileges_keep(uint64_t capabilities);
/* Becomes this user and group, for good. */
int privileges_become(uid_t uid, gid_t gid);
