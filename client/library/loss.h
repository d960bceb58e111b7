/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Lost records: counted, and reported to the daemon in LOST. */

#include "client/library/library.h"

static inline uint64_t loss_count(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* Counts one more lost record. Lock-free. */
static inline void loss_add(_Atomic uint64_t *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* Whether there are losses to report. Lock-free. */
static inline bool loss_is_unreported(const struct userev *userev)
{
	return loss_count(&userev->losses.queue_full) != loss_count(&userev->reported.queue_full) ||
	       loss_count(&userev->losses.too_big) != loss_count(&userev->reported.too_big);
}

/* Sends the daemon how many records were lost since the last report. With the lock held. */
void loss_report(struct userev *);
/* The same at intervals, for callers without the lock. */
void loss_report_at_intervals(struct userev *) __attribute__((__cold__));
