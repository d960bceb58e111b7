/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Monotonic time in milliseconds. */

#include <stdint.h>

int64_t clock_ms(void);
/* Needs no system call, but may be some milliseconds behind. */
uint32_t clock_coarse_ms(void);
/* Milliseconds until the deadline; 0 once it has passed. */
int clock_left_ms(int64_t deadline);
