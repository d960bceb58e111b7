/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Lost records: counted, and reported to the daemon in LOST. */

#include "client/library/library.h"

/* Counts lost records. Lock-free. */
void loss_add(struct userev *, uint64_t queue_full, uint64_t too_big);
/* Whether there are losses to report. Lock-free. */
static inline bool loss_is_unreported(const struct userev *userev)
{
	return atomic_load_explicit(&userev->unreported.queue_full, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&userev->unreported.too_big, memory_order_relaxed) != 0;
}

/* Sends the daemon how many records were lost since the last report. With the lock held. */
void loss_report(struct userev *);
/* The same at intervals, for callers without the lock. */
void loss_report_at_intervals(struct userev *) __attribute__((__cold__));
