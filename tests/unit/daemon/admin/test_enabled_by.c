/* SPDX-License-Identifier: GPL-2.0-or-later */

/* EVENTS names the admin that has switched an event on. */

#include "protocol/row.h"
#include "tests/unit/world.h"

static void say_trace(struct end *admin, uint16_t flags, const char *pattern)
{
	struct packet packet = begin(admin, KIND_TRACE);
	const size_t mark = encode_list(&packet, flags);

	encode_string(&packet, 0, pattern, strlen(pattern));
	encode_count(&packet, mark, 1);
	say(admin, &packet);
}

static void trace(struct end *admin, uint16_t flags, const char *pattern, unsigned events)
{
	struct cursor rows, row;
	uint16_t count;

	say_trace(admin, flags, pattern);
	ck_assert_int_eq(decode_rows(expect(admin, KIND_ROWS)->body, &count, &rows), 0);
	row = next_row(&rows);
	ck_assert_uint_eq(row_get_u64(row, "events"), events);
}

/* How many of all `n` events have an admin, which is this one. */
static unsigned count_enabled(struct end *admin, uint16_t n)
{
	struct cursor rows = ask_for_rows(admin, KIND_EVENTS, n);
	unsigned enabled = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct cursor row = next_row(&rows), items, item;
		struct row_field field;

		if (!row_find(row, "enabled_by", &field))
			continue;
		items = cursor_make(field.value, field.length);
		ck_assert_int_eq(row_next_item(&items, &item), 1);
		ck_assert_uint_eq(row_get_u64(item, "pid"), (uint64_t)admin->client->holder.known.pid);
		ck_assert_uint_eq(row_get_u64(item, "uid"), admin->client->holder.known.uid);
		ck_assert_uint_gt(row_get_u64(item, "time"), 0);
		enabled++;
	}
	return enabled;
}

TEST(admin_of_an_event_is_named_while_it_is_on)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	ADMIN(admin, world);

	get(&end, "one u32 x");
	get(&end, "two u32 x");
	ck_assert_uint_eq(count_enabled(&admin, 2), 0);
	trace(&admin, TRACE_ON, "o*", 1);
	ck_assert_uint_eq(count_enabled(&admin, 2), 1);
	trace(&admin, TRACE_ON, "*", 2);
	ck_assert_uint_eq(count_enabled(&admin, 2), 2);
	trace(&admin, 0, "two", 1);
	ck_assert_uint_eq(count_enabled(&admin, 2), 1);
	trace(&admin, 0, "one", 1);
	ck_assert_uint_eq(count_enabled(&admin, 2), 0);
}

TEST(admin_is_forgotten_with_the_last_holder)
{
	WORLD(world, 10, 10);
	ADMIN(admin, world);
	WELCOMED(next, world, 1);

	{
		WELCOMED(end, world, 1);

		get(&end, "one u32 x");
		trace(&admin, TRACE_ON, "one", 1);
	}
	look_at_lingering(world);
	get(&next, "one u32 x");
	ck_assert_uint_eq(count_enabled(&admin, 1), 0);
	trace(&admin, 0, "one", 1);
}

TEST(admin_that_has_switched_it_in_tracefs_is_named)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	ADMIN(admin, world);

	get(&end, "one u32 x");
	trace(&admin, TRACE_ON | TRACE_DONE, "one", 1);
	ck_assert_uint_eq(count_enabled(&admin, 1), 1);
	/* Nothing was switched. */
	ck_assert(!tracer_next(script.kernel->tracer, 0)->on);
	trace(&admin, TRACE_DONE, "one", 1);
	ck_assert_uint_eq(count_enabled(&admin, 1), 0);
	say_trace(&admin, TRACE_ON | TRACE_DONE, "none");
	expect_error(&admin, KIND_REFUSED, REFUSAL_NO_SUCH_EVENT);
}
