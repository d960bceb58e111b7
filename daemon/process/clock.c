/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/clock.h"

#include <time.h>

double clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
