/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The kernel's list of all events, and their maximum. */

#include <stdio.h>

#include "protocol/base/base.h"

/* "About": event types are numbered together with all of the kernel's own. */
enum { KERNEL_EVENTS_MAX = 64900 };

/* The lines of the list, from the first on, or NULL. */
FILE *look_list(int list);
/* Counts the events of all programs. 0 or a negative errno. */
int look_count_events(int list, uint32_t *ret);
/* kernel.user_events_max, or KERNEL_EVENTS_MAX if that is less or the kernel has no such setting. */
uint32_t look_maximum(void);
/* Sets it to 1 to KERNEL_EVENTS_MAX. 0 or a negative errno. */
int look_set_maximum(uint32_t maximum);
