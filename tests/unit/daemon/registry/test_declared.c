/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What the policy declares is there without any program, and what it wants kept is there after them. */

#include "daemon/registry/declared.h"

#include <stdio.h>
#include <sys/stat.h>

#include "daemon/connection/deposit.h"
#include "daemon/quota/level.h"
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
	struct tenant *tenant = world->daemon->registry.tenants;

	while (tenant && !streq(tenant->path, TENANT_OF_POLICY))
		tenant = tenant->by_identity.next;
	return tenant;
}

static void look(struct world *world)
{
	turn(world);
	look_at_lingering(world);
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
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(query(&end).events, 0);
	check_books(world->daemon);
	world_adopt(world, "");
	ck_assert_uint_eq(count_fake_slots(), 0);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}

TEST(what_is_declared_counts_in_the_maximum_of_the_root)
{
	GUARDED(world);

	world_adopt(world, "[/]\nMaxEvents=1\n" ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 1);
	check_books(world->daemon);
	world_adopt(world, "");
}

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

TEST(what_stays_is_never_gone_and_what_goes_is)
{
	GUARDED(world);

	world_adopt(world, ONE TWO);
	hold();
	world_adopt(world, TWO "[Event three]\n");
	/* The kernel is asked for all that there is to be, before anything is given back. */
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
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

TEST(a_program_that_has_the_same_joins_it)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer answer;

	world_adopt(world, ONE);
	answer = get(&end, "one u32 x");
	ck_assert_uint_ne(answer.stream, stream_of("one u32 x"));
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(query(&end).events, 1);
	script.kernel->facts.flags = 0;
	REGISTER(&end, "one u64 y");
	expect_refused(&end, REFUSAL_NAME_TAKEN);
	/* And has it still when it is declared no more. */
	world_adopt(world, "");
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	check_books(world->daemon);
}

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

TEST(wherever_memory_ends_nothing_is_left_half_done)
{
	GUARDED(world);
	long given = 0, left;

	world_adopt(world, ONE TWO);
	do {
		declared_deinit(&world->daemon->registry);
		turn(world);
		ck_assert_uint_eq(count_fake_slots(), 0);
		allocations_left = given++;
		declared_adopt(&world->daemon->registry);
		left = allocations_left;
		allocations_left = -1;
		ck_assert_int_lt(given, 200);
		check_books(world->daemon);
	} while (left <= 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
	world_adopt(world, "");
}

TEST(a_daemon_goes_on_with_what_the_last_one_has_declared)
{
	KEPT(world);
	unsigned registered;

	world_adopt(world, ONE TWO);
	world_restart(world);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
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

TEST(a_name_that_the_kernel_refuses_is_nobodys)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	/* Whoever has it there may be the one that a program wants to join. */
	get(&end, "one u64 y");
	world_adopt(world, "");
}

TEST(a_page_that_no_other_keeper_could_have_is_none)
{
	KEPT(world);

	refuse(KERNEL_PAGE_FETCH, -EMFILE, 0, 1);
	world_adopt(world, ONE);
	ck_assert_ptr_null(policy_tenant_of(world));
	ck_assert_uint_eq(count_fake_slots(), 0);
	world_adopt(world, ONE);
	ck_assert_uint_eq(count_fake_slots(), 1);
	world_adopt(world, "");
}

TEST(what_cannot_persist_is_not_asked_for_again_and_again)
{
	GUARDED(world);
	unsigned calls;

	script.kernel->facts.flags = 0;
	world_adopt(world, ONE "Persist=yes\n");
	ck_assert_uint_eq(count_fake_slots(), 1);
	calls = count_calls();
	world_adopt(world, ONE "Persist=yes\n");
	ck_assert_uint_eq(count_calls(), calls);
	world_adopt(world, "");
}

TEST(what_the_last_daemon_has_not_heard_of_any_more_is_made_anew)
{
	KEPT(world);

	hold();
	world_adopt(world, ONE TWO);
	carry_out_batch(TAILQ_FIRST(&script.under_way));
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 0);
	world_adopt(world, ONE TWO);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(count_fake_streams(), 1);
	check_books(world->daemon);
	world_adopt(world, "");
}

TEST(a_daemon_that_ends_while_it_declares_leaves_it_to_the_next)
{
	KEPT(world);

	world_adopt(world, ONE);
	hold();
	/* Twice, so that it would begin again when the kernel has answered. */
	world_adopt(world, ONE TWO);
	world_adopt(world, TWO);
	world_restart(world);
	ck_assert_ptr_nonnull(find_slot("one u32 x"));
	world_adopt(world, TWO);
	ck_assert_ptr_null(find_slot("one u32 x"));
	ck_assert_uint_eq(count_fake_slots(), 1);
	check_books(world->daemon);
	world_adopt(world, "");
}

/* The last daemon was ended between two of the kernel's answers. */
TEST(what_was_half_made_ends_with_a_policy_that_declares_nothing)
{
	KEPT(world);

	refuse(KERNEL_REGISTER, -EIO, 0, 1);
	world_adopt(world, ONE);
	world_restart(world);
	declared_adopt(&world->daemon->registry);
	turn(world);
	ck_assert_ptr_null(policy_tenant_of(world));
	ck_assert_uint_eq(count_fake_streams(), 0);
}

/* --- kept --- */

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
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	check_books(world->daemon);
	{
		WELCOMED(end, world, 1);

		after = get(&end, "one u32 x");
		expect_same_answer(&before, &after);
		ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	}
	turn(world);
	ck_assert(streams_yield(world->daemon->registry.streams->tenant->level));
}

TEST(what_is_kept_serves_the_next_client_however_much_it_is)
{
	GUARDED(world);

	keep_for(world, "1h");
	for (unsigned round = 0; round < 2; round++) {
		WELCOMED(end, world, 1);
		char text[16];

		for (unsigned i = 0; i < 2 * STREAM_DEAD_MIN; i++) {
			snprintf(text, sizeof(text), "e%u", i);
			get(&end, text);
		}
	}
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	keep_nothing(world);
}

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

TEST(who_needs_the_room_has_it_back)
{
	UNGUARDED(world);

	world->daemon->registry.max_events = 2;
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
	/* What the one does not have will go sooner than what both have. */
	ck_assert_uint_eq(count_fake_streams(), 2);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	check_books(world->daemon);
	ck_assert(streams_yield(world->daemon->registry.streams->tenant->level));
}

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
	ck_assert(streams_yield(world->daemon->registry.streams->tenant->level));
}

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
	ck_assert(streams_yield(world->daemon->registry.streams->tenant->level));
}

/* A service that is started again is another tenant of the same path, for its cgroup has another id. */
static void make_cgroup(struct world *world, const char *name)
{
	struct cgroups *cgroups = &world->daemon->registry.cgroups;
	char path[PATH_MAX + 16];

	*cgroups = (struct cgroups){ .root = "/" };
	snprintf(cgroups->mount, sizeof(cgroups->mount), "%s/%s", world->directory, name);
	snprintf(path, sizeof(path), "%s/world", cgroups->mount);
	ck_assert_int_eq(mkdir(cgroups->mount, 0700), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void remove_cgroup(const struct world *world, const char *name)
{
	char path[sizeof(world->directory) + 32];

	snprintf(path, sizeof(path), "%s/%s/world", world->directory, name);
	rmdir(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

TEST(what_is_let_go_for_an_event_may_be_all_that_held_it)
{
	UNGUARDED(world);

	world->daemon->registry.max_events = 1;
	keep_for(world, "1h");
	make_cgroup(world, "first");
	{
		WELCOMED(end, world, 1);

		get(&end, "one u32 x");
	}
	make_cgroup(world, "next");
	WELCOMED(end, world, 1);
	ck_assert_uint_eq(HASH_CNT(by_identity, world->daemon->registry.tenants), 2);
	REGISTER(&end, "one u32 x");
	expect_refused(&end, REFUSAL_QUOTA_EXCEEDED);
	check_books(world->daemon);
	get(&end, "one u32 x");
	remove_cgroup(world, "first");
	remove_cgroup(world, "next");
	keep_nothing(world);
}

/* What is asked for behind that finds a place all the same. */
TEST(what_is_let_go_amid_a_batch_serves_none_of_it)
{
	GUARDED(world);
	struct answer answer[3];
	char text[16];

	world->daemon->registry.max_events = STREAM_EVENTS_MAX + 1;
	keep_for(world, "1h");
	WELCOMED(full, world, 1);
	WELCOMED(end, world, 1);
	for (unsigned i = 0; i < STREAM_EVENTS_MAX; i++) {
		snprintf(text, sizeof(text), "e%u", i);
		get(&full, text);
	}
	{
		WELCOMED(other, world, 1);

		get(&other, "one u32 x");
	}
	ck_assert_uint_eq(count_fake_streams(), 2);
	REGISTER(&end, "e0", "two u32 x", "three u32 x");
	expect_answers(&end, answer, 3);
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(answer[2].refusal, REFUSAL_NONE);
	check_books(world->daemon);
	keep_nothing(world);
}

TEST(a_stranger_on_what_is_kept_has_it_let_go)
{
	UNGUARDED(world);
	uint32_t stream;

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);

		stream = get(&end, "one u32 x").stream;
	}
	turn(world);
	ck_assert_uint_eq(count_fake_streams(), 1);
	/* Who has gone may have left a copy behind. */
	find_stream(stream)->self_registered = true;
	streams_probe(&world->daemon->registry);
	look(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
}

TEST(what_a_stranger_leaves_is_not_kept_however_late_that_is_known)
{
	UNGUARDED(world);

	keep_for(world, "1h");
	{
		WELCOMED(end, world, 1);

		find_stream(get(&end, "one u32 x").stream)->self_registered = true;
		hold();
	}
	turn(world);
	hold_no_more();
	look(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
}

/* Who had it may have it still. */
TEST(what_was_kept_is_given_to_nobody_when_the_guard_has_gone_meanwhile)
{
	GUARDED(world);
	struct answer answer;
	uint32_t stream;

	keep_for(world, "1h");
	WELCOMED(next, world, 1);
	{
		WELCOMED(end, world, 1);

		stream = get(&end, "one u32 x").stream;
	}
	turn(world);
	hold();
	REGISTER(&next, "two u32 x");
	set_guard(world, false);
	hold_no_more();
	expect_answers(&next, &answer, 1);
	ck_assert_uint_eq(answer.refusal, REFUSAL_TROUBLE);
	ck_assert_uint_ne(get(&next, "two u32 x").stream, stream);
	keep_nothing(world);
}

TEST(the_time_begins_with_the_last_who_leaves)
{
	UNGUARDED(world);

	keep_for(world, "2");
	WELCOMED(late, world, 1);
	{
		WELCOMED(end, world, 1);

		get(&end, "one u32 x");
		get(&end, "two u32 x");
	}
	turn(world);
	usleep(1200000);
	get(&late, "one u32 x");
	end_hang_up(&late);
	late.stream = fd_close(late.stream);
	usleep(1200000);
	look(world);
	ck_assert_ptr_null(find_slot("two u32 x"));
	ck_assert_ptr_nonnull(find_slot("one u32 x"));
	keep_nothing(world);
}
