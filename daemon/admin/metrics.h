/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The daemon's numbers as OpenMetrics text, a piece at a time. */

#include "protocol/base/text.h"

struct daemon;

enum { METRICS_PIECE_MAX = 24576 }; /* the longest line: a path of which each byte is escaped, and some numbers */

/* How far a reader has come: begins as zeros. */
struct metrics_walk {
	enum { METRICS_OF_DAEMON, METRICS_OF_TENANTS, METRICS_END } part;
	uint32_t youngest; /* the youngest tenant at the beginning: later ones are left out */
	size_t family;	   /* of the numbers of a tenant; behind the last one, refusals */
	bool described;	   /* HELP and TYPE have been written */
	uint32_t tenant;   /* the number of the last one */
	uint32_t reason;   /* the next refusal of that tenant */
};

/* Writes the next lines, METRICS_PIECE_MAX bytes at most. False: there are no more. */
bool metrics_next(struct metrics_walk *, struct daemon *, struct text *);
