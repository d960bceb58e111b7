/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How long requests take, from the turn in which the daemon reads one to its answer: a histogram of each kind, for monitoring. */

#include "protocol/base/base.h"

enum { DURATION_BUCKETS = 7, DURATION_KINDS = 32 };

struct durations {
	const char *request;		       /* NULL: there was no request of this kind */
	uint64_t within[DURATION_BUCKETS + 1]; /* in this bucket and no earlier one; the last one has no end */
	double seconds;			       /* of all */
};

extern const double duration_bounds[DURATION_BUCKETS];

void duration_note(struct durations *, double seconds);
