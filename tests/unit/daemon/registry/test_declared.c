/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that the policy declares are there without any program. */

#include "daemon/registry/declared.h"

#include <stdio.h>

#include "daemon/limits.h"
#include "tests/unit/books.h"

#define ONE "[Event one]\nFields=u32 x\n"
#define TWO "[Event two]\nFields=u32 x; char[8] name\n"

static const char one[] = "one u32 x", two[] = "two u32 x; char[8] name";

static struct tenant *policy_tenant_of(const struct world *world)
{
	struct tenant *tenant = world->daemon->registry.tenants;

	while (tenant && !streq(tenant->path, TENANT_OF_POLICY))
		tenant = tenant->by_number.next;
	return tenant;
}

/* What the policy declares is registered, and nothing else. */
static void adopt(struct world *world, const char *policy, unsigned slots)
{
	world_adopt(world, policy);
	ck_assert_uint_eq(count_fake_slots(), slots);
	check_books(world->daemon);
}

TEST(declared_events_are_charged_to_the_machine_alone)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	unsigned calls;

	adopt(world, "[/]\nMaxEvents=1\n" ONE TWO, 1);
	adopt(world, ONE TWO, 2);
	ck_assert_uint_eq(find_event(one)->stream, find_event(two)->stream);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(query(&end).events, 0);
	calls = count_calls();
	adopt(world, TWO ONE, 2);
	ck_assert_uint_eq(count_calls(), calls);
	adopt(world, "", 0);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}

TEST(event_that_stays_declared_is_never_gone)
{
	GUARDED(world);

	adopt(world, ONE TWO, 2);
	hold();
	world_adopt(world, TWO "[Event three]\n");
	/* The kernel is asked for all new events before any old one is released. */
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
	answer_one();
	hold_no_more();
	turn(world);
	ck_assert_ptr_null(find_event(one));
	ck_assert_uint_eq(find_event("three")->stream, find_event(two)->stream);
	expect_kernel_has(1, 2);
	check_books(world->daemon);
	adopt(world, "", 0);
}

TEST(policy_changed_while_the_kernel_is_asked_counts)
{
	GUARDED(world);

	hold();
	world_adopt(world, ONE);
	world_adopt(world, TWO);
	world_adopt(world, TWO "[Event three]\n");
	hold_no_more();
	turn(world);
	ck_assert_ptr_null(find_event(one));
	ck_assert_uint_eq(count_fake_slots(), 2);
	adopt(world, "", 0);
}

TEST(program_joins_a_declared_event)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	adopt(world, ONE, 1);
	ck_assert_uint_ne(get(&end, one).stream, find_event(one)->stream);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(query(&end).events, 1);
	script.kernel->facts.flags = 0;
	be_refused(&end, "one u64 y", REFUSAL_NAME_TAKEN);
	/* It still has the event when that is not declared any more. */
	adopt(world, "", 1);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
}

TEST(declared_name_is_for_its_tenants_alone)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	world_adopt(world, ONE "Tenants=/a/**\n");
	be_refused(&end, one, REFUSAL_NOT_PERMITTED);
	get(&end, "other u32 x");
	world_adopt(world, "");
	get(&end, one);
}

TEST(refused_declaration_is_tried_again_at_a_reload)
{
	GUARDED(world);

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	adopt(world, ONE TWO, 1);
	ck_assert_ptr_null(find_event(one));
	adopt(world, ONE TWO, 2);
	refuse(KERNEL_STREAM_NEW, -ENFILE, 0, 1);
	adopt(world, ONE, 2);
	adopt(world, ONE, 1);
	adopt(world, "", 0);
}

TEST(declared_name_that_settles_is_asked_for_again)
{
	GUARDED(world);
	struct registry *registry = &world->daemon->registry;

	/* However slow the machine is, it does not settle while the policy is read. */
	registry->w_settling.repeat = 3600.;
	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, 1);
	adopt(world, ONE TWO, 1);
	ck_assert_ptr_nonnull(find_event(two));
	registry->w_settling.repeat = SETTLE_INTERVAL;
	ev_timer_again(registry->loop, &registry->w_settling);
	while (!TAILQ_EMPTY(&registry->settling))
		ev_run(registry->loop, EVRUN_ONCE);
	expect_kernel_has(1, 2);
	expect_asked(KERNEL_REGISTER, 3);
	check_books(world->daemon);
	adopt(world, "", 0);
}

TEST(name_held_with_other_fields_is_not_declared)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	adopt(world, ONE TWO, 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	/* The program may want to join the foreign event. */
	get(&end, "one u64 y");
	adopt(world, ONE, 1);
	ck_assert_ptr_null(policy_tenant_of(world));
	adopt(world, ONE TWO, 2);
	ck_assert_ptr_null(find_event(one));
	adopt(world, "", 1);
}

TEST(many_declared_events_are_on_several_files)
{
	static char text[64 * (2 * STREAM_EVENTS_MAX + 1)];
	GUARDED(world);
	size_t used = 0;

	for (unsigned i = 0; i < 2 * STREAM_EVENTS_MAX + 1; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[Event e%u]\n", i);
	adopt(world, text, 2 * STREAM_EVENTS_MAX + 1);
	ck_assert_uint_eq(count_fake_streams(), 3);
	adopt(world, "", 0);
}

TEST(shortage_of_memory_declares_all_or_nothing)
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
	adopt(world, "", 0);
}

TEST(declared_event_that_cannot_persist_is_asked_once)
{
	GUARDED(world);
	unsigned calls;

	script.kernel->facts.flags = 0;
	adopt(world, ONE "Persist=yes\n", 1);
	calls = count_calls();
	adopt(world, ONE "Persist=yes\n", 1);
	ck_assert_uint_eq(count_calls(), calls);
	adopt(world, "", 0);
}

/* --- restarts --- */

TEST(next_daemon_goes_on_with_declared_events)
{
	KEPT(world);
	unsigned registered;

	world_adopt(world, ONE TWO);
	world_restart(world);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	check_books(world->daemon);
	registered = script.asked[KERNEL_REGISTER];
	adopt(world, ONE TWO, 2);
	expect_asked(KERNEL_REGISTER, registered);
	adopt(world, TWO, 1);
	world_restart(world);
	adopt(world, "", 0);
	ck_assert_ptr_null(policy_tenant_of(world));
}

TEST(page_without_a_copy_for_the_keeper_is_given_up)
{
	KEPT(world);

	refuse(KERNEL_PAGE_FETCH, -EMFILE, 0, 1);
	adopt(world, ONE, 0);
	ck_assert_ptr_null(policy_tenant_of(world));
	adopt(world, ONE, 1);
	adopt(world, "", 0);
}

TEST(declaration_without_an_answer_is_made_anew)
{
	KEPT(world);

	hold();
	world_adopt(world, ONE TWO);
	carry_out_batch(TAILQ_FIRST(&script.under_way));
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 0);
	adopt(world, ONE TWO, 2);
	ck_assert_uint_eq(count_fake_streams(), 1);
	adopt(world, "", 0);
}

/* A second change waits for the kernel's answer to the first. */
TEST(daemon_ending_while_it_declares_keeps_old_events)
{
	KEPT(world);

	world_adopt(world, ONE);
	hold();
	world_adopt(world, ONE TWO);
	world_adopt(world, TWO);
	world_restart(world);
	ck_assert_ptr_nonnull(find_event(one));
	adopt(world, TWO, 1);
	ck_assert_ptr_null(find_event(one));
	adopt(world, "", 0);
}

/* The last daemon ended between two of the kernel's answers. */
TEST(half_made_declarations_end_with_an_empty_policy)
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
