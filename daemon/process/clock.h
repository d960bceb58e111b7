/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <time.h>

/* Seconds on CLOCK_MONOTONIC, which setting the machine's time does not change. */
static inline double clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
