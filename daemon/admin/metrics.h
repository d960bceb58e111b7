/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The daemon's numbers as OpenMetrics text, a piece at a time. */

#include "protocol/base/text.h"

struct daemon;
struct summary;

enum { METRICS_PIECE_MAX = 24576 }; /* the longest line: a path of which each byte is escaped, and some numbers */

/* How far a reader has come: begins as zeros. */
struct metrics_walk {
	enum {
		METRICS_OF_DAEMON,
		METRICS_OF_REQUESTS,
		METRICS_OF_SECTIONS,
		METRICS_OF_EVENTS,
		METRICS_OF_TENANTS,
		METRICS_END, /* the last line; then there is nothing more */
	} part;
	uint32_t youngest; /* the youngest tenant at the beginning: later ones are left out */
	uint64_t youngest_event;
	size_t family;		       /* of the numbers of a section or tenant; behind the last one, refusals */
	bool described;		       /* HELP and TYPE have been written */
	size_t request;		       /* the next row of requests */
	const struct summary *section; /* the last one */
	uint64_t event;		       /* the number of the last one */
	uint32_t tenant;	       /* the number of the last one */
	uint32_t reason;	       /* the next refusal of that section or tenant */
};

/* Writes the next lines, METRICS_PIECE_MAX bytes at most. False: there are no more. */
bool metrics_next(struct metrics_walk *, struct daemon *, struct text *);
