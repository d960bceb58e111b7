/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/duration.h"

const double duration_bounds[DURATION_BUCKETS] = { 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1., 10. };

void duration_note(struct durations *durations, double seconds)
{
	size_t bucket = 0;

	while (bucket < DURATION_BUCKETS && seconds > duration_bounds[bucket])
		bucket++;
	durations->within[bucket]++;
	durations->seconds += seconds;
}
