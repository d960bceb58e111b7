/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What daemon, keeper and kernel have of what could grow, at a moment at which nobody is there. */

#include "tests/integration/pair.h"

struct figures {
	uint64_t seconds;
	uint64_t round;
	uint64_t daemon_kb; /* memory that is not a file's */
	uint64_t keeper_kb; /* with its enablers */
	uint64_t fds;
	uint64_t keeper_fds;
	uint64_t events; /* that there were in the midst of it */
	uint64_t ledger; /* bytes */
	uint64_t kernel_events;
	uint64_t slab_kb; /* that the kernel cannot reclaim */
};

/* But for time, round, and what there was in the midst of it. */
void figures_take(const struct pair *, const struct tally *, struct figures *ret);
/* A line, as tests/soak/plot.awk reads it; the first is the head. */
void figures_print_head(void);
void figures_print(const struct figures *);

/* Of a stretch of time in which some of these should not have grown. */
struct series {
	struct figures *figures;
	size_t n;
};

void series_add(struct series *, const struct figures *);
void series_deinit(struct series *);

enum { SERIES_MIN = 6 };

/* What may not grow: the daemon's, where it was the same all the time, the keeper's, the kernel's. Fails with a sentence. */
void series_expect_no_growth(const struct series *, bool same_daemon, bool same_keeper);
