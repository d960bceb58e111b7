/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Things under numbers that only ever grow and are never used again: appended at the end, found by halving, taken out anywhere. */

#include "protocol/base/base.h"

struct roster_place {
	uint64_t number;
	void *thing; /* NULL: taken out */
};

/* Zeros are an empty one. */
struct roster {
	struct roster_place *place;
	size_t n;
	size_t holes;
	size_t capacity;
};

/* -ENOMEM. `number` is above all that were ever appended, and `thing` is not NULL. */
int roster_append(struct roster *, uint64_t number, void *thing);
void *roster_find(const struct roster *, uint64_t number);
/* The first thing whose number is at least that; NULL at the end. */
void *roster_from(const struct roster *, uint64_t number);
void roster_remove(struct roster *, uint64_t number);
static inline size_t roster_count(const struct roster *roster)
{
	return roster->n - roster->holes;
}
void roster_deinit(struct roster *);
