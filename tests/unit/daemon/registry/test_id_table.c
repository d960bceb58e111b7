/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/id_table.h"
#include "tests/suite.h"

enum { MANY = 20000 };

struct thing {
	uint64_t id;
	bool there;
};

static struct thing things[MANY];

static void put(struct id_table *table, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		things[i] = (struct thing){ .id = i, .there = true };
		ck_assert(id_table_add(table, &things[i]));
	}
}

static void expect_right(const struct id_table *table, uint32_t n)
{
	uint32_t there = 0, listed = 0;
	const struct thing *thing;

	for (uint32_t i = 0; i < n; i++) {
		there += things[i].there;
		ck_assert_ptr_eq(id_table_find(table, i), things[i].there ? &things[i] : NULL);
	}
	ID_TABLE_FOREACH(thing, table) {
		ck_assert(thing->there);
		listed++;
	}
	ck_assert_uint_eq(table->n, there);
	ck_assert_uint_eq(listed, there);
}

/* In random order, so that gaps are closed in runs of all lengths, and around the end. */
TEST(removed_things_leave_the_others)
{
	struct id_table table = { 0 };
	uint32_t left = MANY;

	put(&table, MANY);
	expect_right(&table, MANY);
	ck_assert_uint_le(table.n_slots * sizeof(void *), MANY * 22);
	srandom(1);
	while (left > 0) {
		struct thing *thing = &things[random() % MANY];

		if (!thing->there)
			continue;
		thing->there = false;
		id_table_remove(&table, thing);
		if (--left % 997 == 0)
			expect_right(&table, MANY);
	}
	ck_assert_ptr_null(table.slot);
}

/* Each is visited, although others move to the place of one that is removed. */
TEST(things_can_be_removed_while_they_are_visited)
{
	struct id_table table = { 0 };
	struct thing *thing;

	for (uint32_t n = 1; n < 300; n++) {
		put(&table, n);
		for (uint32_t at = 0; (thing = id_table_next(&table, &at));)
			if (thing->id % 3 == 0) {
				thing->there = false;
				id_table_remove(&table, thing);
			} else {
				at++;
			}
		expect_right(&table, n);
		ck_assert_uint_eq(table.n, n - (n + 2) / 3);
		id_table_deinit(&table);
	}
}

TEST(reserved_room_is_not_asked_for_again)
{
	struct id_table table = { 0 };
	void **slot;

	for (uint32_t n = 1; n < 300; n++) {
		ck_assert(id_table_reserve(&table, n));
		slot = table.slot;
		put(&table, n);
		ck_assert_ptr_eq(table.slot, slot);
		id_table_deinit(&table);
	}
}
