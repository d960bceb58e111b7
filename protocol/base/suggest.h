/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Names that look alike. */

#include "protocol/base/base.h"

size_t edit_distance(const char *a, const char *b);
struct suggestions {
	const char *wanted;
	struct suggestion {
		char name[256];
		size_t distance;
	} best[5];
	size_t count;
};
/* Considers a name; copies it, and makes it safe to show. */
void suggest(struct suggestions *, const char *name, size_t length);
/* The nearest one, or NULL. */
const char *suggestions_nearest(const struct suggestions *);
