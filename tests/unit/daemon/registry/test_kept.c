/* SPDX-License-Identifier: GPL-2.0-or-later */

/* KeepFor=: streams whose programs have ended are kept for a time, and given up when there is no room. */

#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/lists.h"

static void look(struct world *world)
{
	turn(world);
	look_at_lingering(world);
	turn(world);
}

/* A program that registers these events, and ends. */
static struct answer run_program(struct world *world, const char *description, const char *other)
{
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, description);

	if (other)
		get(&end, other);
	return answer;
}

TEST(kept_stream_serves_the_next_client)
{
	GUARDED(world);
	struct answer before, after;

	keep_for(world, "1h");
	before = run_program(world, "one u32 x", NULL);
	turn(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	expect_charged(world, 1, 0);
	check_books(world->daemon);
	after = run_program(world, "one u32 x", NULL);
	expect_same_answer(&before, &after);
	expect_asked(KERNEL_STREAM_NEW, 1);
	keep_nothing(world);
}

/* All its events are without a lease; it is not replaced for that. */
TEST(kept_stream_with_many_events_serves_a_client)
{
	GUARDED(world);
	struct list list = list_of(0, 2 * STREAM_DEAD_MIN);

	keep_for(world, "1h");
	for (unsigned round = 0; round < 2; round++) {
		WELCOMED(end, world, 1);

		for (unsigned i = 0; i < list.n; i++) {
			struct list one = list_of(i, 1);

			get_list(&end, &one);
		}
	}
	expect_asked(KERNEL_STREAM_NEW, 1);
	keep_nothing(world);
}

TEST(kept_stream_ends_with_its_time)
{
	GUARDED(world);

	keep_for(world, "1");
	run_program(world, "one u32 x", NULL);
	look(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	usleep(1100000);
	look(world);
	ck_assert_uint_eq(count_fake_slots(), 0);
}

TEST(time_begins_when_the_last_client_leaves)
{
	UNGUARDED(world);

	keep_for(world, "2");
	run_program(world, "one u32 x", "two u32 x");
	turn(world);
	usleep(1200000);
	run_program(world, "one u32 x", NULL);
	usleep(1200000);
	look(world);
	ck_assert_ptr_null(find_event("two u32 x"));
	ck_assert_ptr_nonnull(find_event("one u32 x"));
	keep_nothing(world);
}

TEST(kept_stream_is_given_up_for_a_refused_request)
{
	UNGUARDED(world);

	world->daemon->options.max_events = 2;
	keep_for(world, "1h");
	WELCOMED(end, world, 1);
	get(&end, "one u32 x");
	run_program(world, "two u32 x", NULL);
	turn(world);
	ck_assert_uint_eq(query(&end).events, 2);
	be_refused(&end, "three u32 x", REFUSAL_QUOTA_EXCEEDED);
	look(world);
	ck_assert_uint_eq(query(&end).events, 1);
	get(&end, "three u32 x");
	keep_for(world, "0");
}

TEST(kept_stream_is_replaced_by_one_with_all_its_events)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	for (unsigned i = 0; i < 3; i++) {
		WELCOMED(end, world, 1);

		/* The kept stream of the last program goes, unless it had more events. */
		get(&end, "one u32 x");
		look(world);
		ck_assert_uint_eq(count_fake_streams(), i < 2 ? 1 : 2);
		if (i == 1)
			get(&end, "two u32 x");
	}
	look(world);
	/* The event that both have is kept longer. */
	ck_assert_uint_eq(count_fake_streams(), 2);
	expect_charged(world, 2, 0);
	check_books(world->daemon);
	keep_nothing(world);
}

TEST(oldest_kept_stream_beyond_the_maximum_is_given_up)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	for (unsigned i = 0; i < KEPT_MAX + 3; i++) {
		char description[TEXT_MAX];

		describe(description, i);
		run_program(world, description, NULL);
	}
	turn(world);
	ck_assert_uint_eq(count_fake_streams(), KEPT_MAX);
	ck_assert_ptr_null(find_event("event_2 u32 x"));
	ck_assert_ptr_nonnull(find_event("event_3 u32 x"));
	keep_nothing(world);
}

TEST(released_event_is_kept_too)
{
	GUARDED(world);

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);

		release(&end, get(&end, "one u32 x").bit);
		expect_asked(KERNEL_RELEASE, 0);
	}
	turn(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	keep_nothing(world);
}

/* A service that is started again is another tenant of the same path, since its cgroup has another id. */
static void make_cgroup(struct world *world, char mount[64])
{
	struct cgroups *cgroups = &world->daemon->registry.cgroups;
	char path[80];

	cgroups_forget(cgroups);
	make_temporary_directory(mount, 64);
	*cgroups = (struct cgroups){ .root = "/" };
	string_copy(cgroups->mount, sizeof(cgroups->mount), mount);
	snprintf(path, sizeof(path), "%s/world", mount);
	ck_assert_int_eq(mkdir(path, 0700), 0);
}

TEST(kept_stream_may_be_the_last_of_its_tenant)
{
	UNGUARDED(world);
	char first[64], next[64];

	world->daemon->options.max_events = 1;
	keep_for(world, "1h");
	make_cgroup(world, first);
	run_program(world, "one u32 x", NULL);
	make_cgroup(world, next);
	WELCOMED(end, world, 1);
	ck_assert_uint_eq(HASH_CNT(by_number, world->daemon->registry.tenants), 2);
	be_refused(&end, "one u32 x", REFUSAL_QUOTA_EXCEEDED);
	check_books(world->daemon);
	get(&end, "one u32 x");
	remove_directory(first);
	remove_directory(next);
	keep_nothing(world);
}

/* The events behind the refused one still find a stream. */
TEST(kept_stream_given_up_in_a_batch_serves_none_of_it)
{
	GUARDED(world);
	struct list most = list_of(0, STREAM_EVENTS_MAX);
	struct answer answer[3];

	world->daemon->options.max_events = STREAM_EVENTS_MAX + 1;
	keep_for(world, "1h");
	CLIENTS(c, world, 2);
	get_list(&c[0], &most);
	run_program(world, "one u32 x", NULL);
	ck_assert_uint_eq(count_fake_streams(), 2);
	REGISTER(&c[1], "event_0 u32 x", "two u32 x", "three u32 x");
	expect_answers(&c[1], answer, 3);
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(answer[2].refusal, REFUSAL_NONE);
	check_books(world->daemon);
	keep_nothing(world);
}

/* Another process may have a copy of the kept file. */
TEST(self_registration_on_a_kept_stream_ends_it)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	run_program(world, "one u32 x", NULL);
	turn(world);
	ck_assert_uint_eq(count_fake_streams(), 1);
	register_on(world->daemon->registry.streams->number);
	streams_probe(&world->daemon->registry);
	look(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
}

TEST(late_self_registration_ends_a_kept_stream)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);

		register_on(get(&end, "one u32 x").stream);
		hold();
	}
	turn(world);
	hold_no_more();
	look(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
}

/* Its old client may have a copy. */
TEST(kept_stream_serves_nobody_when_the_guard_is_gone)
{
	GUARDED(world);
	uint32_t stream;

	keep_for(world, "1h");
	WELCOMED(next, world, 1);
	stream = run_program(world, "one u32 x", NULL).stream;
	turn(world);
	hold();
	REGISTER(&next, "two u32 x");
	set_guard(world, false);
	hold_no_more();
	expect_refused(&next, REFUSAL_TROUBLE);
	ck_assert_uint_ne(get(&next, "two u32 x").stream, stream);
	keep_nothing(world);
}
