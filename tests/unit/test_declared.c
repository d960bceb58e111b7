/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What the policy declares is there without any program, and what it wants kept is there after them. */

#include "daemon/declared.h"

#include <stdio.h>

#include "daemon/deposit.h"
#include "daemon/level.h"
#include "tests/unit/books.h"

#define ONE "[Event one]\nFields=u32 x\n"
#define TWO "[Event two]\nFields=u32 x; char[8] name\n"

static const struct fake_slot *find_slot(const char *text)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && streq(fake.slot[i].text, text))
			return &fake.slot[i];
	return NULL;
}

static uint32_t stream_of(const char *text)
{
	const struct fake_slot *slot = find_slot(text);

	ck_assert_msg(slot, "%s is not there", text);
	return slot->stream;
}

static struct tenant *policy_tenant_of(const struct world *world)
{
	struct tenant *tenant = world->daemon->tenants;

	while (tenant && !streq(tenant->path, TENANT_OF_POLICY))
		tenant = tenant->by_identity.next;
	return tenant;
}

static void look(struct world *world)
{
	turn(world);
	streams_look(world->daemon);
	turn(world);
}

/* --- declared --- */

TEST(what_is_declared_is_there_and_charged_to_the_machine_alone)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(stream_of("one u32 x"), stream_of("two u32 x; char[8] name"));
	ck_assert_uint_eq(world->daemon->machine.common, 2);
	ck_assert_uint_eq(query(&end).events, 0);
	check_books(world->daemon);
	world_adopt(world, "");
	ck_assert_uint_eq(count_fake_slots(), 0);
	ck_assert_uint_eq(world->daemon->machine.common, 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}
END_TEST

TEST(the_same_once_more_asks_the_kernel_for_nothing)
{
	GUARDED(world);
	unsigned calls;

	world_adopt(world, ONE TWO);
	calls = count_calls();
	world_adopt(world, TWO ONE);
	ck_assert_uint_eq(count_calls(), calls);
	world_adopt(world, "");
}
END_TEST

TEST(what_stays_is_never_gone_and_what_goes_is)
{
	GUARDED(world);

	world_adopt(world, ONE TWO);
	hold();
	world_adopt(world, TWO "[Event three]\n");
	/* The kernel is asked for all that there is to be, before anything is given back. */
	ck_assert_uint_eq(world->daemon->machine.common, 3);
	answer_one();
	hold_no_more();
	answer_all();
	turn(world);
	ck_assert_ptr_null(find_slot("one u32 x"));
	ck_assert_uint_eq(stream_of("three"), stream_of("two u32 x; char[8] name"));
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(count_fake_streams(), 1);
	check_books(world->daemon);
	world_adopt(world, "");
}
END_TEST

TEST(a_policy_that_changes_while_the_kernel_is_asked_counts_in_the_end)
{
	GUARDED(world);

	hold();
	world_adopt(world, ONE);
	world_adopt(world, TWO);
	world_adopt(world, TWO "[Event three]\n");
	hold_no_more();
	answer_all();
	turn(world);
	ck_assert_ptr_null(find_slot("one u32 x"));
	ck_assert_uint_eq(count_fake_slots(), 2);
	world_adopt(world, "");
	ck_assert_uint_eq(count_fake_slots(), 0);
}
END_TEST

TEST(a_program_that_has_the_same_joins_it)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer answer;

	world_adopt(world, ONE);
	answer = get(&end, "one u32 x");
	ck_assert_uint_ne(answer.stream, stream_of("one u32 x"));
	ck_assert_uint_eq(world->daemon->machine.common, 1);
	ck_assert_uint_eq(query(&end).events, 1);
	REGISTER(&end, "one u64 y");
	expect_refused(&end, REFUSAL_NAME_TAKEN);
	/* And has it still when it is declared no more. */
	world_adopt(world, "");
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(world->daemon->machine.common, 1);
	check_books(world->daemon);
}
END_TEST

TEST(a_name_is_kept_for_those_whom_it_is_declared_for)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	world_adopt(world, ONE "Tenants=/a/**\n");
	REGISTER(&end, "one u32 x");
	expect_refused(&end, REFUSAL_NOT_PERMITTED);
	get(&end, "other u32 x");
	world_adopt(world, "");
	get(&end, "one u32 x");
}
END_TEST

TEST(what_the_kernel_does_not_take_is_passed_over_and_tried_again)
{
	GUARDED(world);

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 1);
	ck_assert_ptr_null(find_slot("one u32 x"));
	check_books(world->daemon);
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 2);
	refuse(KERNEL_STREAM_NEW, -ENFILE, 0, 1);
	world_adopt(world, ONE);
	check_books(world->daemon);
	ck_assert_uint_eq(count_fake_slots(), 2);
	world_adopt(world, ONE);
	ck_assert_uint_eq(count_fake_slots(), 1);
	world_adopt(world, "");
}
END_TEST

TEST(who_holds_the_name_with_other_fields_keeps_it)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	get(&end, "one u64 y");
	world_adopt(world, ONE);
	ck_assert_ptr_null(policy_tenant_of(world));
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_ptr_null(find_slot("one u32 x"));
	world_adopt(world, "");
}
END_TEST

TEST(many_lie_on_several_files)
{
	static char text[64 * (2 * STREAM_EVENTS_MAX + 1)];
	GUARDED(world);
	size_t used = 0;

	for (unsigned i = 0; i < 2 * STREAM_EVENTS_MAX + 1; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[Event e%u]\n", i);
	world_adopt(world, text);
	ck_assert_uint_eq(count_fake_slots(), 2 * STREAM_EVENTS_MAX + 1);
	ck_assert_uint_eq(count_fake_streams(), 3);
	check_books(world->daemon);
	world_adopt(world, "");
}
END_TEST

TEST(wherever_memory_ends_nothing_is_left_half_done)
{
	GUARDED(world);
	long given = 0, left;

	world_adopt(world, ONE TWO);
	do {
		declared_deinit(world->daemon);
		turn(world);
		ck_assert_uint_eq(count_fake_slots(), 0);
		allocations_left = given++;
		declared_adopt(world->daemon);
		left = allocations_left;
		allocations_left = -1;
		ck_assert_int_lt(given, 200);
		check_books(world->daemon);
	} while (left <= 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
	world_adopt(world, "");
}
END_TEST

TEST(a_daemon_goes_on_with_what_the_last_one_has_declared)
{
	KEPT(world);
	unsigned registered;

	world_adopt(world, ONE TWO);
	world_restart(world);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(world->daemon->machine.common, 2);
	check_books(world->daemon);
	registered = script.asked[KERNEL_REGISTER];
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], registered);
	world_adopt(world, TWO);
	ck_assert_uint_eq(count_fake_slots(), 1);
	world_restart(world);
	/* One that has another policy. */
	world_adopt(world, "");
	ck_assert_uint_eq(count_fake_slots(), 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}
END_TEST

/* Found by fuzz_daemon. */
TEST(a_file_on_which_nothing_was_registered_goes_too)
{
	KEPT(world);

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	world_adopt(world, ONE);
	ck_assert_uint_eq(count_fake_streams(), 1);
	world_restart(world);
	world_adopt(world, "");
	turn(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}
END_TEST

/* --- kept --- */

/* All programs are of one tenant, which has a path. */
static void keep_for(struct world *world, const char *time)
{
	char policy[64];

	world->daemon->options.tenant_is_process = false;
	snprintf(policy, sizeof(policy), "[/world]\nKeepFor=%s\n", time);
	world_adopt(world, policy);
}

TEST(what_is_kept_serves_the_next_client)
{
	GUARDED(world);
	struct answer before, after;

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);

		before = get(&end, "one u32 x");
	}
	turn(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	ck_assert_uint_eq(world->daemon->machine.common, 1);
	check_books(world->daemon);
	{
		WELCOMED(end, world, 1);

		after = get(&end, "one u32 x");
		expect_same_answer(&before, &after);
		ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	}
	turn(world);
	ck_assert(streams_yield(world->daemon->streams->tenant->level));
}
END_TEST

TEST(its_time_ends)
{
	GUARDED(world);

	keep_for(world, "1");
	{
		WELCOMED(end, world, 1);

		get(&end, "one u32 x");
	}
	look(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	usleep(1100000);
	look(world);
	ck_assert_uint_eq(count_fake_slots(), 0);
}
END_TEST

TEST(who_needs_the_room_has_it_back)
{
	UNGUARDED(world);

	world->daemon->options.max_events = 2;
	keep_for(world, "1h");
	WELCOMED(end, world, 1);
	get(&end, "one u32 x");
	{
		WELCOMED(second, world, 1);

		get(&second, "two u32 x");
	}
	turn(world);
	ck_assert_uint_eq(query(&end).events, 2);
	REGISTER(&end, "three u32 x");
	expect_refused(&end, REFUSAL_QUOTA_EXCEEDED);
	look(world);
	ck_assert_uint_eq(query(&end).events, 1);
	get(&end, "three u32 x");
	/* Those who have it go by what is said then. */
	keep_for(world, "0");
}
END_TEST

TEST(what_comes_again_replaces_what_is_kept_of_it)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	for (unsigned i = 0; i < 3; i++) {
		WELCOMED(end, world, 1);

		/* Each in a file of his own; what is kept of the last one goes, unless there was more. */
		get(&end, "one u32 x");
		look(world);
		ck_assert_uint_eq(count_fake_streams(), i < 2 ? 1 : 2);
		if (i == 1)
			get(&end, "two u32 x");
	}
	look(world);
	ck_assert_uint_eq(count_fake_streams(), 1);
	ck_assert_uint_eq(world->daemon->machine.common, 2);
	check_books(world->daemon);
	ck_assert(streams_yield(world->daemon->streams->tenant->level));
}
END_TEST

TEST(so_many_are_kept_and_the_oldest_goes_first)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	for (unsigned i = 0; i < KEPT_MAX + 3; i++) {
		WELCOMED(end, world, 1);
		char description[16];

		snprintf(description, sizeof(description), "e%u u32 x", i);
		get(&end, description);
	}
	turn(world);
	ck_assert_uint_eq(count_fake_streams(), KEPT_MAX);
	ck_assert_ptr_null(find_slot("e2 u32 x"));
	ck_assert_ptr_nonnull(find_slot("e3 u32 x"));
	ck_assert(streams_yield(world->daemon->streams->tenant->level));
}
END_TEST

TEST(what_a_client_gives_back_stays_too)
{
	GUARDED(world);
	unsigned released;

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);
		struct answer answer = get(&end, "one u32 x");

		released = script.asked[KERNEL_RELEASE];
		release(&end, answer.bit);
		ck_assert_uint_eq(script.asked[KERNEL_RELEASE], released);
	}
	turn(world);
	ck_assert_uint_eq(count_fake_slots(), 1);
	ck_assert(streams_yield(world->daemon->streams->tenant->level));
}
END_TEST

SUITE("declared", what_is_declared_is_there_and_charged_to_the_machine_alone,
      the_same_once_more_asks_the_kernel_for_nothing, what_stays_is_never_gone_and_what_goes_is,
      a_policy_that_changes_while_the_kernel_is_asked_counts_in_the_end, a_program_that_has_the_same_joins_it,
      a_name_is_kept_for_those_whom_it_is_declared_for, what_the_kernel_does_not_take_is_passed_over_and_tried_again,
      who_holds_the_name_with_other_fields_keeps_it, many_lie_on_several_files,
      wherever_memory_ends_nothing_is_left_half_done, a_daemon_goes_on_with_what_the_last_one_has_declared,
      a_file_on_which_nothing_was_registered_goes_too,
      what_is_kept_serves_the_next_client, its_time_ends, who_needs_the_room_has_it_back,
      what_comes_again_replaces_what_is_kept_of_it, so_many_are_kept_and_the_oldest_goes_first,
      what_a_client_gives_back_stays_too)
