/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <time.h>

#include "client/library/clock.h"
#include "protocol/base/base.h"

int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint32_t clock_coarse_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint32_t)now.tv_sec * 1000 + (uint32_t)(now.tv_nsec / 1000000);
}

int clock_left_ms(int64_t deadline)
{
	return (int)MIN(MAX(deadline - clock_ms(), 0), INT32_MAX);
}
