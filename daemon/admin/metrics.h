/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the daemon counts, as OpenMetrics text, a piece at a time. metrics.c explains. */

#include "daemon/connection/client.h"
#include "protocol/base/text.h"

struct daemon;

enum {
	METRICS_PIECE_MAX = 24576
}; /* the longest line: a path of nothing but what has to be escaped, and some numbers */

/* How far somebody has come. */
struct metrics_walk {
	uint32_t youngest; /* tenant when it began: those who come later are not in it */
	size_t family;
	bool described;	   /* what it is */
	uint32_t position; /* in the family: the last tenant, or that its one number is said */
	uint32_t reason;   /* of refusals of that tenant, the next one */
	bool ended;
};

void metrics_begin(struct metrics_walk *, const struct daemon *);
/* Writes the next lines, METRICS_PIECE_MAX bytes at most. False: there are no more. */
bool metrics_next(struct metrics_walk *, struct daemon *, struct text *);

/* METRICS → ROWS of text. */
int handle_metrics(struct client *, const struct message *);
