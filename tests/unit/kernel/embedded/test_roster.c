/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/roster.h"

#include "tests/suite.h"

enum { MANY = 3000 };

static char thing[MANY];

TEST(an_empty_roster_holds_nothing)
{
	struct roster roster = { 0 };

	ck_assert_ptr_null(roster_find(&roster, 0));
	ck_assert_ptr_null(roster_from(&roster, 0));
	roster_remove(&roster, 0);
	ck_assert_uint_eq(roster_count(&roster), 0);
	roster_deinit(&roster);
}
END_TEST

TEST(removed_entry_is_skipped)
{
	struct roster roster = { 0 };

	for (uint64_t number = 0; number < 10; number++)
		ck_assert_int_eq(roster_append(&roster, number * 10, &thing[number]), 0);
	roster_remove(&roster, 30);
	roster_remove(&roster, 40);
	roster_remove(&roster, 40);
	roster_remove(&roster, 45);
	ck_assert_uint_eq(roster_count(&roster), 8);
	ck_assert_ptr_null(roster_find(&roster, 30));
	ck_assert_ptr_null(roster_find(&roster, 31));
	ck_assert_ptr_eq(roster_find(&roster, 50), &thing[5]);
	ck_assert_ptr_eq(roster_from(&roster, 21), &thing[5]);
	ck_assert_ptr_null(roster_from(&roster, 91));
	roster_deinit(&roster);
}
END_TEST

TEST(any_history_finds_what_a_plain_array_finds)
{
	struct roster roster = { 0 };
	bool there[MANY] = { false };
	size_t appended = 0, count = 0;

	srandom(1);
	while (appended < MANY) {
		size_t at = appended ? (size_t)random() % appended : 0, next = at;

		if (random() % 2) {
			ck_assert_int_eq(roster_append(&roster, appended, &thing[appended]), 0);
			there[appended++] = true;
			count++;
		} else if (there[at]) {
			roster_remove(&roster, at);
			there[at] = false;
			count--;
		}
		ck_assert_uint_eq(roster_count(&roster), count);
		ck_assert_ptr_eq(roster_find(&roster, at), there[at] ? &thing[at] : NULL);
		while (next < appended && !there[next])
			next++;
		ck_assert_ptr_eq(roster_from(&roster, at), next < appended ? &thing[next] : NULL);
	}
	roster_deinit(&roster);
}
END_TEST

TEST(memory_does_not_grow_with_numbers_that_are_gone)
{
	struct roster roster = { 0 };

	for (uint64_t number = 0; number < 100000; number++) {
		ck_assert_int_eq(roster_append(&roster, number, thing), 0);
		if (number >= 10)
			roster_remove(&roster, number - 10);
	}
	ck_assert_uint_eq(roster_count(&roster), 10);
	ck_assert_uint_le(roster.capacity, 64);
	roster_deinit(&roster);
}
END_TEST

SUITE("roster", an_empty_roster_holds_nothing, removed_entry_is_skipped, any_history_finds_what_a_plain_array_finds,
      memory_does_not_grow_with_numbers_that_are_gone)
