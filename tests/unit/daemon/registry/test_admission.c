/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/admission.h"

#include "daemon/quota/charge.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/text.h"
#include "protocol/protocol.h"
#include "tests/suite.h"

enum { EVENTS = 16 };

/* Two tenants in one slice. */
struct world {
	struct registry registry;
	struct machine machine;
	struct level *table;
	struct tenant tenant, neighbour;
	struct quota_event event[EVENTS];
	struct quota_charge charge[EVENTS];
	char sentence[WIRE_SENTENCE_MAX + 1];
};

static void world_init(struct world *world, uint32_t capacity)
{
	*world = (struct world){ .registry.max_events = MAX_EVENTS_BY_POLICY };
	world->tenant.registry = world->neighbour.registry = &world->registry;
	machine_init(&world->machine, capacity);
	ck_assert_int_eq(level_get(&world->table, "/slice/box", &world->tenant.level), 0);
	ck_assert_int_eq(level_get(&world->table, "/slice/neighbour", &world->neighbour.level), 0);
	for (size_t i = 0; i < EVENTS; i++)
		quota_event_init(&world->event[i], &world->machine);
}

static void world_deinit(struct world *world)
{
	for (size_t i = 0; i < EVENTS; i++)
		quota_charge_deinit(&world->charge[i]);
	level_unref(world->tenant.level);
	level_unref(world->neighbour.level);
	machine_deinit(&world->machine);
}

#define WORLD(name, capacity)                                                                                          \
	_cleanup_(world_deinit) struct world name;                                                                     \
	world_init(&(name), capacity)

static int ask(struct world *world, struct tenant *tenant, size_t event)
{
	struct text why = text_make(world->sentence, sizeof(world->sentence));

	return admission_charge(tenant, RESOURCE_EVENTS, &world->event[event], &world->charge[event], &why);
}

static void expect_sentence(const struct world *world, const char *sentence)
{
	ck_assert_str_eq(world->sentence, sentence);
}

TEST(who_is_admitted_is_told_nothing)
{
	WORLD(world, 10);

	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	expect_sentence(&world, "");
}

TEST(a_maximum_is_said_with_its_numbers)
{
	WORLD(world, 10);

	level_set_maximum(world.tenant.level, RESOURCE_EVENTS, 1, false);
	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world, "this tenant holds 1 of 1 events; release some, or ask the admin for a larger maximum");
}

/* What the policy said of it, in some section. */
static struct policy_value said(const char *section, uint32_t number)
{
	return (struct policy_value){ .origin = { section, section ? "/etc/a.conf" : NULL, 7 }, .number = number };
}

TEST(a_maximum_is_said_with_its_key_and_section)
{
	WORLD(world, 10);
	struct level *level = world.tenant.level, *slice = level->parent;
	struct policy_value of_tenant = said("/slice/*", 1), of_slice = said("/slice", 1), by_default = said(NULL, 1),
			    of_daemon = said("Daemon", 1);

	level_set_maximum(level, RESOURCE_EVENTS, 1, true);
	level->maximum_by[RESOURCE_EVENTS] = &of_tenant;
	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world, "this tenant holds 1 of 1 events (MaxEvents=1 of [/slice/*]); release some, or ask the "
				"admin for a larger maximum");
	level_set_maximum(level, RESOURCE_EVENTS, 1, false);
	level->maximum_by[RESOURCE_EVENTS] = &of_daemon;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, " events (DefaultMaxEvents=1 of [Daemon]); "));
	level->maximum_by[RESOURCE_EVENTS] = &by_default;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, " events (DefaultMaxEvents=1); "));
	level->maximum_by[RESOURCE_EVENTS] = NULL;
	world.registry.max_events = 1;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, " events (--max-events); "));
	level_set_maximum(slice, RESOURCE_EVENTS, 1, true);
	level_set_maximum(level, RESOURCE_EVENTS, QUOTA_NO_MAXIMUM, false);
	slice->maximum_by[RESOURCE_EVENTS] = &of_slice;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, "/slice hold 1 of 1 events (MaxEvents=1 of [/slice]); "));
	ck_assert_ptr_null(strstr(world.sentence, "a.conf"));
	/* After a reload the section may be gone. */
	world.registry.generation++;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, "/slice hold 1 of 1 events; "));
}

TEST(a_share_is_said_with_what_it_is_a_share_of)
{
	WORLD(world, 100);
	struct level *slice = world.tenant.level->parent;
	struct policy_value of_slice = said("/slice", 4);

	level_set_maximum(slice, RESOURCE_EVENTS, 4, true);
	slice->maximum_by[RESOURCE_EVENTS] = &of_slice;
	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 2), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, "not 2 (MaxEvents=4 of [/slice]); release some"));
	level_set_maximum(slice, RESOURCE_EVENTS, 3, true);
	of_slice.number = 3;
	ck_assert_int_eq(ask(&world, &world.neighbour, 3), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"all in the cgroup /slice hold 2 of 3 events (MaxEvents=3 of [/slice]), and the rest is "
			"for all of them; release some, or ask the admin for a reserve");
}

TEST(the_longest_limit_leaves_room_for_the_advice)
{
	WORLD(world, 100);
	struct tenant tenant = { .registry = &world.registry };
	struct policy_value of_section;
	char path[512] = "/";

	memset(path + 1, 'x', sizeof(path) - 2);
	of_section = said(path, 60000);
	ck_assert_int_eq(level_get(&world.table, path, &tenant.level), 0);
	tenant.level->maximum_by[RESOURCE_EVENTS] = &of_section;
	quota_set_maximum(&tenant.level->quota, 0, true);
	ck_assert_int_eq(ask(&world, &tenant, 0), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_nonnull(strstr(world.sentence, "...]); release some, or ask the admin for a larger maximum"));
	level_unref(tenant.level);
}

/* Where the kernel is the backend, what is released is free with the last event of its data file. */
TEST(maximum_with_lingering_events_says_when_they_end)
{
	WORLD(world, 10);

	level_set_maximum(world.tenant.level, RESOURCE_EVENTS, 1, false);
	world.tenant.lingering = 1;
	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"this tenant holds 1 of 1 events; release some, or ask the admin for a larger maximum; 1 "
			"lingers until all events of its data file are released");
	world.tenant.lingering = 12;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"this tenant holds 1 of 1 events; release some, or ask the admin for a larger maximum; 12 "
			"linger until all events of their data file are released");
}

TEST(a_maximum_further_up_is_said_with_the_cgroup_and_without_the_neighbours)
{
	WORLD(world, 10);

	level_set_maximum(world.tenant.level->parent, RESOURCE_EVENTS, 1, true);
	ck_assert_int_eq(ask(&world, &world.neighbour, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world, "all in the cgroup /slice hold 1 of 1 events; release some, or ask the admin for a "
				"larger maximum");
}

TEST(a_fair_share_is_said_with_what_it_would_take)
{
	WORLD(world, 4);

	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 2), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"this tenant holds 2 events, a fair share among 1: for one more 4 would have to be left, "
			"not 2; release some, or ask the admin for a reserve");
	ck_assert_int_eq(ask(&world, &world.neighbour, 3), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"all in the cgroup /slice hold 2 events, a fair share among 1: for one more 4 would have "
			"to be left, not 2; release some, or ask the admin for a reserve");
}

TEST(what_is_left_of_a_cgroup_for_others_is_said_with_the_cgroup)
{
	WORLD(world, 100);

	level_set_maximum(world.tenant.level->parent, RESOURCE_EVENTS, 2, true);
	ck_assert_int_eq(ask(&world, &world.neighbour, 0), 0);
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_QUOTA_EXCEEDED);
	expect_sentence(&world,
			"all in the cgroup /slice hold 1 of 2 events, and the rest is for all of them; release some, "
			"or ask the admin for a reserve");
	/* At the root it is the smaller one of its maximum and the pool. */
	level_set_maximum(world.tenant.level->parent, RESOURCE_EVENTS, 100, true);
	world.machine.capacity = 2;
	ck_assert_int_eq(ask(&world, &world.tenant, 1), REFUSAL_MACHINE_FULL);
	expect_sentence(&world, "this machine holds 1 of 2 events; release some, or ask its admin for more room");
}

TEST(a_full_machine_is_said_with_what_is_reserved)
{
	WORLD(world, 1);
	struct reserve *reserve;

	ck_assert_int_eq(ask(&world, &world.tenant, 0), 0);
	ck_assert_int_eq(ask(&world, &world.neighbour, 1), REFUSAL_MACHINE_FULL);
	expect_sentence(&world, "this machine holds 1 of 1 events; release some, or ask its admin for more room");
	world.machine.capacity = 8;
	reserve = reserve_new(&world.machine, 7);
	ck_assert_int_eq(ask(&world, &world.neighbour, 1), REFUSAL_MACHINE_FULL);
	expect_sentence(&world,
			"this machine holds 1 of 1 events besides 7 that are reserved; release some, or ask its "
			"admin for more room");
	reserve_unref(reserve);
}

TEST(a_cgroups_name_that_would_drive_a_terminal_is_made_safe_and_leaves_room)
{
	WORLD(world, 10);
	struct tenant tenant = { .registry = &world.registry };
	char path[256] = "/\033[2J\n";

	memset(path + strlen(path), 'x', 200);
	ck_assert_int_eq(level_get(&world.table, path, &tenant.level), 0);
	quota_set_maximum(&tenant.level->quota, 0, true);
	ck_assert_int_eq(ask(&world, &tenant, 0), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_ptr_null(strchr(world.sentence, '\033'));
	ck_assert_ptr_null(strchr(world.sentence, '\n'));
	ck_assert_ptr_nonnull(strstr(world.sentence, "a larger maximum"));
	level_unref(tenant.level);
}
