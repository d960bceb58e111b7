/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The sentences of refusals: numbers, key, section and remedy, and no names of other tenants. */

#include "daemon/registry/admission.h"

#include "daemon/quota/charge.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/text.h"
#include "protocol/protocol.h"
#include "tests/suite.h"

enum { EVENTS = 16 };

/* Two tenants in one slice. */
struct world {
	struct options options;
	struct registry registry;
	struct machine machine;
	struct level *table;
	struct tenant tenant, neighbour;
	struct level *slice;
	struct quota_event event[EVENTS];
	struct quota_charge charge[EVENTS];
	size_t n_charged;
};

static void world_init(struct world *world, uint32_t capacity)
{
	*world = (struct world){ .options.max_events = OPTIONS_UNSET, .registry.options = &world->options };
	world->tenant.registry = world->neighbour.registry = &world->registry;
	world->machine = (struct machine){ .capacity = capacity };
	ck_assert_int_eq(level_get(&world->table, "/slice/box", &world->tenant.level), 0);
	ck_assert_int_eq(level_get(&world->table, "/slice/neighbour", &world->neighbour.level), 0);
	world->slice = world->tenant.level->parent;
	for (size_t i = 0; i < EVENTS; i++)
		world->event[i] = (struct quota_event){ .machine = &world->machine };
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

/* One event more; NULL: it is charged. A sentence may be a part of the refusal's. */
static void expect(struct world *world, struct tenant *tenant, uint32_t refusal, const char *sentence)
{
	char text[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(text, sizeof(text));
	const size_t n = world->n_charged;

	ck_assert_int_eq(admission_charge(tenant, RESOURCE_EVENTS, &world->event[n], &world->charge[n], &why),
			 (int)refusal);
	ck_assert_msg(strstr(text, sentence), "'%s' is not in '%s'", sentence, text);
	ck_assert(refusal != REFUSAL_NONE || streq(text, ""));
	world->n_charged += refusal == REFUSAL_NONE;
}

static void charge(struct world *world, unsigned events)
{
	while (events-- > 0)
		expect(world, &world->tenant, REFUSAL_NONE, "");
}

static void expect_exceeded(struct world *world, const char *sentence)
{
	expect(world, &world->tenant, REFUSAL_QUOTA_EXCEEDED, sentence);
}

/* A value of the policy, in some section. */
static struct policy_value value_in(const char *section, uint32_t number)
{
	return (struct policy_value){ .origin = { section, section ? "/etc/a.conf" : NULL, 7 }, .number = number };
}

TEST(maximum_is_named_with_its_key_and_section)
{
	const struct policy_value of_tenant = value_in("/slice/*", 1), of_daemon = value_in("Daemon", 1),
				  by_default = value_in(NULL, 1), of_slice = value_in("/slice", 1);
	const struct {
		const struct policy_value *by;
		bool is_own;
		const char *sentence;
	} cases[] = {
		{ &of_tenant, true,
		  "this tenant holds 1 of 1 events (MaxEvents=1 of [/slice/*]); release some, or ask the admin for a "
		  "larger maximum" },
		{ &of_daemon, false, " events (DefaultMaxEvents=1 of [Daemon]); " },
		{ &by_default, false, " events (DefaultMaxEvents=1); " },
		{ NULL, false, " events (--max-events); " },
	};
	WORLD(world, 10);
	struct level *level = world.tenant.level;

	charge(&world, 1);
	world.options.max_events = 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		level_set_maximum(level, RESOURCE_EVENTS, 1, cases[i].is_own);
		level->maximum_by[RESOURCE_EVENTS] = cases[i].by;
		expect_exceeded(&world, cases[i].sentence);
	}
	level_set_maximum(world.slice, RESOURCE_EVENTS, 1, true);
	level_set_maximum(level, RESOURCE_EVENTS, QUOTA_NO_MAXIMUM, false);
	world.slice->maximum_by[RESOURCE_EVENTS] = &of_slice;
	expect_exceeded(&world, "all in the cgroup /slice hold 1 of 1 events (MaxEvents=1 of [/slice]); ");
	/* After a reload the section may be gone. */
	world.registry.generation++;
	expect_exceeded(&world,
			"all in the cgroup /slice hold 1 of 1 events; release some, or ask the admin for a larger "
			"maximum");
}

TEST(fair_share_is_named_with_its_whole)
{
	WORLD(world, 100);
	struct policy_value of_slice = value_in("/slice", 4);

	level_set_maximum(world.slice, RESOURCE_EVENTS, 4, true);
	world.slice->maximum_by[RESOURCE_EVENTS] = &of_slice;
	charge(&world, 2);
	expect_exceeded(&world, "not 2 (MaxEvents=4 of [/slice]); release some");
	level_set_maximum(world.slice, RESOURCE_EVENTS, 3, true);
	of_slice.number = 3;
	expect(&world, &world.neighbour, REFUSAL_QUOTA_EXCEEDED,
	       "all in the cgroup /slice hold 2 of 3 events (MaxEvents=3 of [/slice]), and the rest is for all of them; "
	       "release some, or ask the admin for a reserve");
}

TEST(fair_share_is_named_with_the_rest_it_needs)
{
	WORLD(world, 4);

	charge(&world, 2);
	expect_exceeded(&world,
			"this tenant holds 2 events, a fair share among 1: for one more 4 would have to be left, "
			"not 2; release some, or ask the admin for a reserve");
	expect(&world, &world.neighbour, REFUSAL_QUOTA_EXCEEDED,
	       "all in the cgroup /slice hold 2 events, a fair share among 1: for one more 4 would have to be left, not 2; "
	       "release some, or ask the admin for a reserve");
}

TEST(rest_of_a_cgroup_or_machine_is_named)
{
	WORLD(world, 100);

	level_set_maximum(world.slice, RESOURCE_EVENTS, 2, true);
	expect(&world, &world.neighbour, REFUSAL_NONE, "");
	expect_exceeded(&world, "all in the cgroup /slice hold 1 of 2 events, and the rest is for all of them; release "
				"some, or ask the admin for a reserve");
	/* At the root it is the smaller one of its maximum and the pool. */
	level_set_maximum(world.slice, RESOURCE_EVENTS, 100, true);
	world.machine.capacity = 2;
	expect(&world, &world.tenant, REFUSAL_MACHINE_FULL,
	       "this machine holds 1 of 2 events; release some, or ask its admin for more room");
}

TEST(full_machine_is_named_with_its_reserves)
{
	WORLD(world, 1);
	struct reserve *reserve;

	charge(&world, 1);
	expect(&world, &world.neighbour, REFUSAL_MACHINE_FULL,
	       "this machine holds 1 of 1 events; release some, or ask its admin for more room");
	world.machine.capacity = 8;
	reserve = reserve_new(&world.machine, 7);
	expect(&world, &world.neighbour, REFUSAL_MACHINE_FULL,
	       "this machine holds 1 of 1 events besides 7 that are reserved; release some, or ask its admin for more "
	       "room");
	reserve_unref(reserve);
}

/* With the kernel's user_events a released event is free when its data file has no others. */
TEST(maximum_with_lingering_events_says_when_they_end)
{
	WORLD(world, 10);

	level_set_maximum(world.tenant.level, RESOURCE_EVENTS, 1, false);
	world.tenant.lingering = 1;
	charge(&world, 1);
	expect_exceeded(&world, "ask the admin for a larger maximum; 1 lingers until all events of its data file are "
				"released");
	world.tenant.lingering = 12;
	expect_exceeded(&world, "; 12 linger until all events of their data file are released");
}

/* A long path, or one that would drive a terminal. */
TEST(odd_path_leaves_room_for_the_remedy)
{
	static const char *const beginnings[] = { "/", "/\033[2J\n" };

	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
		WORLD(world, 100);
		struct tenant tenant = { .registry = &world.registry };
		char path[512] = "", sentence[WIRE_SENTENCE_MAX + 1];
		struct policy_value of_section = value_in(path, 60000);
		struct text why = text_make(sentence, sizeof(sentence));

		memset(path, 'x', sizeof(path) - 1);
		memcpy(path, beginnings[i], strlen(beginnings[i]));
		ck_assert_int_eq(level_get(&world.table, path, &tenant.level), 0);
		tenant.level->maximum_by[RESOURCE_EVENTS] = &of_section;
		quota_set_maximum(&tenant.level->quota[RESOURCE_EVENTS], 0, true);
		ck_assert_int_eq(admission_charge(&tenant, RESOURCE_EVENTS, world.event, world.charge, &why),
				 REFUSAL_QUOTA_EXCEEDED);
		ck_assert_ptr_nonnull(strstr(sentence, "...]); release some, or ask the admin for a larger maximum"));
		ck_assert(!strchr(sentence, '\033') && !strchr(sentence, '\n'));
		level_unref(tenant.level);
	}
}
