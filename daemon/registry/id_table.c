/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Open addressing: a thing is at the place of its id, or behind it with no empty slot between. At most three quarters are used. */

#include "daemon/registry/id_table.h"

enum { SLOTS_MIN = 4 };

static void id_table_put(struct id_table *table, void *thing)
{
	uint32_t at = id_table_place(table, id_table_id(thing));

	while (table->slot[at])
		at = (at + 1) & (table->n_slots - 1);
	table->slot[at] = thing;
}

bool id_table_reserve(struct id_table *table, uint32_t n)
{
	struct id_table resized = { .n_slots = MAX(table->n_slots, SLOTS_MIN), .n = table->n };
	void *thing;

	while (table->n + n > resized.n_slots / 4 * 3)
		resized.n_slots *= 2;
	if (resized.n_slots == table->n_slots)
		return true;
	resized.slot = calloc(resized.n_slots, sizeof(*resized.slot));
	if (!resized.slot)
		return false;
	ID_TABLE_FOREACH(thing, table)
		id_table_put(&resized, thing);
	free(table->slot);
	*table = resized;
	return true;
}

bool id_table_add(struct id_table *table, void *thing)
{
	if (table->n >= table->n_slots / 4 * 3 && !id_table_reserve(table, 1))
		return false;
	id_table_put(table, thing);
	table->n++;
	return true;
}

/* Moves things behind the empty slot forward, up to the next empty one. */
static void id_table_close_gap(struct id_table *table, uint32_t gap)
{
	uint32_t mask = table->n_slots - 1;

	for (uint32_t at = (gap + 1) & mask; table->slot[at]; at = (at + 1) & mask) {
		uint32_t place = id_table_place(table, id_table_id(table->slot[at]));

		/* It may stand in the gap unless its place is behind that. */
		if (((at - place) & mask) < ((at - gap) & mask))
			continue;
		table->slot[gap] = steal_pointer(table->slot[at]);
		gap = at;
	}
}

void id_table_remove(struct id_table *table, const void *thing)
{
	uint32_t at = id_table_place(table, id_table_id(thing));

	while (table->slot[at] != thing)
		at = (at + 1) & (table->n_slots - 1);
	table->slot[at] = NULL;
	id_table_close_gap(table, at);
	if (--table->n == 0)
		id_table_deinit(table);
}

void id_table_deinit(struct id_table *table)
{
	free(table->slot);
	*table = (struct id_table){ 0 };
}
