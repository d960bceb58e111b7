/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Resources of daemon, keeper and kernel that could grow, at a moment without clients. */

#include "tests/integration/pair.h"

enum figure {
	SECONDS,
	ROUNDS,
	DAEMON_KB, /* memory that is not a file's */
	KEEPER_KB, /* with its enablers */
	FDS,
	KEEPER_FDS,
	EVENTS, /* in the midst of the round */
	LEDGER_BYTES,
	KERNEL_EVENTS,
	SLAB_KB, /* of the kernel's memory, the part that it cannot reclaim */
	FIGURES
};

struct figures {
	uint64_t number[FIGURES];
};

/* All but the first two, and the events. */
void figures_take(const struct pair *, const struct tally *, struct figures *ret);
/* A line for tests/soak/plot.awk; NULL: their names. */
void figures_print(const struct figures *);

/* The figures of a stretch of time. */
struct series {
	struct figures *figures;
	size_t n;
};

void series_add(struct series *, const struct figures *);
void series_deinit(struct series *);

enum { SERIES_MIN = 6 };

/* Fails with a sentence if the ledger has grown, the kernel's memory, or that of a daemon or keeper that was the same all the time. */
void series_expect_no_growth(const struct series *, bool same_daemon, bool same_keeper);
