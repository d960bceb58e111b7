/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the kernel says of user_events as a whole. */

#include "protocol/base/base.h"

/* "About": event types are numbered together with all of the kernel's own. */
enum { KERNEL_EVENTS_MAX = 64900 };

/* The kernel's list of events, to be asked more than once. An fd or a negative errno. */
int look_open(int tracefs);
/* How many there are in it, whoever made them. 0 or a negative errno. */
int look_count_events(int fd, uint32_t *ret);
/* kernel.user_events_max; `otherwise` where the kernel has none. */
uint32_t look_maximum(uint32_t otherwise);
/* 1 to KERNEL_EVENTS_MAX. 0 or a negative errno. */
int look_set_maximum(uint32_t maximum);
