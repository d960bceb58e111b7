/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Things by their ids, which are our own numbers: clients don't choose them. A table takes 11 to 21 bytes for each thing, where
 * uthash takes 72, and has no order.
 */

#include "protocol/base/base.h"

/* All zeros: empty. */
struct id_table {
	void **slot;
	uint32_t n_slots; /* a power of two, or 0 */
	uint32_t n;
};

/* Each thing begins with its id, as a uint64_t, which must not change while it is in a table. */
static inline uint64_t id_table_id(const void *thing)
{
	return *(const uint64_t *)thing;
}

static inline uint32_t id_table_place(const struct id_table *table, uint64_t id)
{
	return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (table->n_slots - 1);
}

/* NULL: there is no such thing. */
static inline void *id_table_find(const struct id_table *table, uint64_t id)
{
	uint32_t at;

	if (table->n == 0)
		return NULL;
	for (at = id_table_place(table, id); table->slot[at]; at = (at + 1) & (table->n_slots - 1))
		if (id_table_id(table->slot[at]) == id)
			return table->slot[at];
	return NULL;
}

/* The thing must not be in the table, nor one of the same id. False: no memory. */
bool id_table_add(struct id_table *, void *thing);
/* Room for so many more, so that the next ones are added without a failure. False: no memory. */
bool id_table_reserve(struct id_table *, uint32_t n);
/* The thing must be in the table. */
void id_table_remove(struct id_table *, const void *thing);
/* Forgets all things. */
void id_table_deinit(struct id_table *);

/* The first thing at that place or behind it; NULL: there is none. The caller may remove it, and go on from the same place. */
static inline void *id_table_next(const struct id_table *table, uint32_t *at)
{
	while (*at < table->n_slots && !table->slot[*at])
		++*at;
	return *at < table->n_slots ? table->slot[*at] : NULL;
}

/* The table must not change. */
#define ID_TABLE_FOREACH(thing, table)                                                                                 \
	for (uint32_t thing##_at = 0; ((thing) = id_table_next(table, &thing##_at)); thing##_at++)
