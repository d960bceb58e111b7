/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The effects of a new policy on connected clients and on new ones. */

#include "daemon/daemon.h"

#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "tests/unit/fake_kernel.h"

TEST(new_policy_draws_other_borders_for_new_connections)
{
	static const struct {
		const char *policy, *border;
	} policies[] = {
		{ "[/nowhere/*/b]\nTenant=yes\n", "/nowhere/a/b" },
		{ "[/nowhere/*]\nTenant=yes\n[/nowhere/*/b]\nTenant=no\n", "/nowhere/a" },
		{ "[/nowhere]\nTenant=yes\n", "/nowhere" },
		{ "[/nowhere/**]\nTenant=no\n[/nowhere/a/b/c]\nTenant=yes\n", "/nowhere/a/b/c" },
		{ "[/nowhere/a/b/c]\nMaxEvents=5\n", "/nowhere/a" },
	};
	struct tenant *tenants[ARRAY_SIZE(policies)], *again;
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		world_adopt(world, policies[i].policy);
		/* Also when that tenant exists. */
		for (unsigned round = 0; round < 2; round++) {
			ck_assert_int_eq(tenant_of_cgroup(&world->daemon->registry, "/nowhere/a/b/c/d", &again), 0);
			ck_assert_str_eq(again->path, policies[i].border);
			ck_assert(round == 0 || again == tenants[i]);
			tenants[i] = again;
		}
	}
	ck_assert_ptr_eq(tenants[1], tenants[4]);
	for (size_t i = 0; i < ARRAY_SIZE(policies) - 1; i++)
		tenant_release(tenants[i]);
}

#define EIGHT "e0 u32 a", "e1 u32 a", "e2 u32 a", "e3 u32 a", "e4 u32 a", "e5 u32 a", "e6 u32 a", "e7 u32 a"

/* The second client's request is a precedent, until the reload. */
TEST(request_from_before_a_reload_is_no_precedent)
{
	GUARDED(world);
	world->daemon->options.tenant_is_process = false;
	CLIENTS(c, world, 4);
	struct answer answer[8];

	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&c[i], EIGHT);
		expect_each(&c[i], REFUSAL_NONE, 8);
	}
	world_adopt(world, "[/**]\nDenyEvents=e3\n");
	REGISTER(&c[3], EIGHT);
	expect_answers(&c[3], answer, 8);
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_NOT_PERMITTED);
	ck_assert_uint_eq(answer[4].refusal, REFUSAL_NONE);
}

TEST(event_from_before_a_reload_is_admitted_anew)
{
	GUARDED(world);
	world->daemon->options.tenant_is_process = false;
	CLIENTS(c, world, 3);

	for (unsigned i = 0; i < 2; i++)
		get(&c[i], "e3 u32 a");
	world_adopt(world, "[/**]\nDenyEvents=e3\n");
	be_refused(&c[2], "e3 u32 a", REFUSAL_NOT_PERMITTED);
	/* Nor for a client that has it. */
	be_refused(&c[0], "e3 u32 a", REFUSAL_NOT_PERMITTED);
	get(&c[2], "e4 u32 a");
}

static uint64_t features_now(struct world *world)
{
	END(end, world, 7);
	struct packet packet = begin(&end, KIND_HELLO);
	struct string_item tenant;
	struct wire_welcome welcome;

	encode_fixed(&packet, KIND_HELLO, &(struct wire_hello){ .understands = UINT64_MAX });
	say(&end, &packet);
	expect_welcome(&end);
	ck_assert_int_eq(decode_welcome(end.heard.message.body, &welcome, &tenant), 0);
	return welcome.features & (WIRE_FEATURE_PERSIST | WIRE_FEATURE_MULTI_FORMAT);
}

TEST(features_are_those_that_the_policy_allows)
{
	static const struct {
		const char *policy;
		uint64_t with_option, without;
	} cases[] = {
		{ "", WIRE_FEATURE_PERSIST | WIRE_FEATURE_MULTI_FORMAT, WIRE_FEATURE_MULTI_FORMAT },
		{ "[/**]\nAllowPersist=no\n", WIRE_FEATURE_MULTI_FORMAT, WIRE_FEATURE_MULTI_FORMAT },
		{ "[/**]\nAllowPersist=yes\nAllowMultiFormat=no\n", WIRE_FEATURE_PERSIST, WIRE_FEATURE_PERSIST },
	};
	GUARDED(world);

	world->daemon->options.tenant_is_process = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		world->daemon->options.allow_persist = true;
		world_adopt(world, cases[i].policy);
		ck_assert_uint_eq(features_now(world), cases[i].with_option);
		world->daemon->options.allow_persist = false;
		world_adopt(world, cases[i].policy);
		ck_assert_uint_eq(features_now(world), cases[i].without);
	}
}

TEST(flags_that_the_policy_does_not_allow_are_refused)
{
	GUARDED(world);
	world->daemon->options.tenant_is_process = false;
	world->daemon->options.allow_persist = false;
	world_adopt(world, "[/**]\nAllowMultiFormat=no\n");
	WELCOMED(end, world, 7);

	REGISTER_WITH(&end, REGISTER_PERSIST, "lasting u32 a");
	expect_refused(&end, REFUSAL_NOT_PERMITTED);
	REGISTER_WITH(&end, REGISTER_MULTI_FORMAT, "many u32 a");
	expect_refused(&end, REFUSAL_NOT_PERMITTED);
	get(&end, "plain u32 a");
}

static bool share_a_file(struct world *world)
{
	CLIENTS(c, world, 2);

	get(&c[0], "common u32 a");
	get(&c[1], "common u32 a");
	return is_same_file(c[0].stream, c[1].stream);
}

TEST(files_are_shared_where_the_policy_allows_it)
{
	static const struct {
		const char *policy;
		bool guarded, unguarded;
	} cases[] = {
		{ "[/**]\nStream=auto\n", true, false },
		{ "[/**]\nStream=client\n", false, false },
		{ "[/**]\nStream=shared\n", true, true },
	};
	GUARDED(world);

	world->daemon->options.tenant_is_process = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		world_adopt(world, cases[i].policy);
		for (int guarded = 0; guarded < 2; guarded++) {
			set_guard(world, guarded);
			/* The first file shows whether the guard holds. */
			share_a_file(world);
			ck_assert(share_a_file(world) == (guarded ? cases[i].guarded : cases[i].unguarded));
			turn(world);
		}
	}
}
