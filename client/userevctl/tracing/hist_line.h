/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A line of an event's hist file. Pure. */

#include "protocol/base/base.h"

enum { HIST_NAMES_MAX = 16 };
/* Of fields: first of the keys, then of the values. */
struct hist_names {
	const char *name[HIST_NAMES_MAX];
	size_t n_keys, n;
};
struct hist_line {
	const char *at[HIST_NAMES_MAX]; /* in the line */
	size_t length[HIST_NAMES_MAX];
	uint64_t hits;
};
/* "{ us: ~ 2^10, path: /cart } hitcount:  60  ns:  7". False: it is another line. */
bool hist_line_read(const char *line, const struct hist_names *, struct hist_line *ret);
