/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/quota/level.h"

#include "daemon/quota/charge.h"
#include "tests/suite.h"
#include "tests/unit/shortage.h"

static struct level *table;

static struct level *get(const char *path)
{
	struct level *level = NULL;

	ck_assert_int_eq(level_get(&table, path, &level), 0);
	return level;
}

TEST(a_path_has_a_level_for_each_of_its_parts)
{
	static const char *const paths[] = { "/a/b/c", "/a/b", "/a", "/" };
	struct level *level = get(paths[0]);
	const struct level *part = level;
	bool own;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ck_assert_str_eq(part->path, paths[i]);
		ck_assert_ptr_eq(level_of(level, &part->quota, &own), part);
		ck_assert(!own);
		ck_assert_ptr_eq(level_of(level, &part->own_files, &own), part);
		ck_assert(own);
		ck_assert_ptr_eq(part->own.parent, &part->quota);
		ck_assert_ptr_eq(part->quota.parent, part->parent ? &part->parent->quota : NULL);
		part = part->parent;
	}
	ck_assert_ptr_null(part);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 4);
	level_unref(level);
	ck_assert_ptr_null(table);
}

TEST(levels_are_shared_and_go_when_nobody_holds_them)
{
	struct level *one = get("/slice/one"), *two = get("/slice/two"), *again = get("/slice/one"), *slice;

	ck_assert_ptr_eq(one, again);
	ck_assert_ptr_eq(one->parent, two->parent);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 4);
	level_unref(one);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 4);
	level_unref(again);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 3);
	slice = level_ref(two->parent);
	level_unref(two);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 2);
	ck_assert_ptr_null(level_unref(slice));
	ck_assert_ptr_null(table);
	ck_assert_ptr_null(level_unref(NULL));
}

TEST(the_root_is_a_level_too)
{
	struct level *root = get("/"), *nowhere = get(""), *below = get("/a");

	ck_assert_ptr_eq(root, nowhere);
	ck_assert_ptr_eq(below->parent, root);
	ck_assert_ptr_null(root->parent);
	level_unref(nowhere);
	level_unref(below);
	level_unref(root);
	ck_assert_ptr_null(table);
}

TEST(a_made_up_path_is_one_level_whatever_is_in_it)
{
	struct level *level = get("process:7:kworker/0:1"), *other = get("/process:7:kworker");

	ck_assert_str_eq(level->path, "process:7:kworker/0:1");
	ck_assert_str_eq(level->parent->path, "/");
	ck_assert_ptr_ne(level, other);
	level_unref(level);
	level_unref(other);
	ck_assert_ptr_null(table);
}

TEST(a_path_that_another_one_begins_with_is_not_above_it)
{
	struct level *one = get("/a/b"), *other = get("/a/bc");

	ck_assert_ptr_eq(one->parent, other->parent);
	level_unref(other);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 3);
	level_unref(one);
	ck_assert_ptr_null(table);
}

TEST(a_path_that_is_made_again_has_the_level_that_something_is_left_on)
{
	struct level *first = get("/slice/box"), *left = level_ref(first), *again;

	level_set_maximum(first, RESOURCE_EVENTS, 1, false);
	level_unref(first);
	again = get("/slice/box");
	ck_assert_ptr_eq(again, left);
	ck_assert_uint_eq(again->own.maximum, 1);
	level_unref(left);
	level_unref(again);
	again = get("/slice/box");
	ck_assert_uint_eq(again->own.maximum, QUOTA_NO_MAXIMUM);
	level_unref(again);
}

static int charge(struct level *level, struct quota_event *event, struct quota_charge *ret)
{
	struct quota_refusal refusal;

	return quota_charge(&level->own, event, NULL, ret, &refusal);
}

TEST(a_default_maximum_is_for_a_tenant_and_a_policys_for_all_that_is_below)
{
	struct level *slice = get("/slice"), *box = get("/slice/box");
	struct quota_charge ours = { 0 }, theirs = { 0 }, more = { 0 };
	struct quota_event event[3];
	struct machine machine;

	machine_init(&machine, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(event); i++)
		quota_event_init(&event[i], &machine);
	/* A program that happens to be in the slice itself. */
	level_set_maximum(slice, RESOURCE_EVENTS, 1, false);
	ck_assert_int_eq(charge(slice, &event[0], &ours), 0);
	ck_assert_int_eq(charge(slice, &event[1], &more), QUOTA_E_MAXIMUM);
	ck_assert_int_eq(charge(box, &event[1], &theirs), 0);
	ck_assert_uint_eq(slice->quota.held, 2);
	ck_assert_uint_eq(slice->own.held, 1);
	level_set_maximum(slice, RESOURCE_EVENTS, 2, true);
	ck_assert_int_eq(charge(box, &event[2], &more), QUOTA_E_MAXIMUM);
	/* What the policy gave may be used up by one, alone or not. */
	quota_charge_deinit(&theirs);
	ck_assert_int_eq(charge(slice, &event[1], &more), 0);
	quota_charge_deinit(&more);
	quota_charge_deinit(&ours);
	level_unref(box);
	level_unref(slice);
	machine_deinit(&machine);
}

TEST(a_connection_counts_at_all_levels_until_it_ends)
{
	struct level *box = get("/slice/box"), *other = get("/slice/other");

	level_connect(box);
	level_connect(box);
	level_connect(other);
	ck_assert_uint_eq(box->connections, 2);
	ck_assert_uint_eq(other->connections, 1);
	ck_assert_uint_eq(box->parent->connections, 3);
	ck_assert_uint_eq(box->parent->parent->connections, 3);
	level_disconnect(box);
	ck_assert_uint_eq(box->connections, 1);
	ck_assert_uint_eq(box->parent->connections, 2);
	level_disconnect(box);
	level_disconnect(other);
	ck_assert_uint_eq(box->parent->parent->connections, 0);
	level_unref(box);
	level_unref(other);
}

TEST(the_nearest_level_that_has_all_its_connections_is_found)
{
	struct level *box = get("/slice/box"), *slice = box->parent, *root = slice->parent;

	ck_assert_ptr_null(level_find_crowded(box));
	level_connect(box);
	ck_assert_ptr_null(level_find_crowded(box));
	root->max_connections = 1;
	ck_assert_ptr_eq(level_find_crowded(box), root);
	slice->max_connections = 1;
	ck_assert_ptr_eq(level_find_crowded(box), slice);
	slice->max_connections = 2;
	ck_assert_ptr_eq(level_find_crowded(box), root);
	box->max_connections = 0;
	ck_assert_ptr_eq(level_find_crowded(box), box);
	ck_assert_ptr_eq(level_find_crowded(slice), root);
	level_disconnect(box);
	ck_assert_ptr_eq(level_find_crowded(slice), NULL);
	level_unref(box);
}

TEST(a_maximum_below_what_is_connected_lets_nobody_else_in)
{
	struct level *box = get("/box");

	for (unsigned i = 0; i < 3; i++)
		level_connect(box);
	box->max_connections = 1;
	ck_assert_ptr_eq(level_find_crowded(box), box);
	level_disconnect(box);
	level_disconnect(box);
	ck_assert_ptr_eq(level_find_crowded(box), box);
	level_disconnect(box);
	ck_assert_ptr_null(level_find_crowded(box));
	level_unref(box);
}

TEST(a_request_takes_a_token_at_each_level_and_waits_for_the_slowest)
{
	struct level *box = get("/slice/box"), *other = get("/slice/other"), *slice = box->parent;

	ck_assert(level_wait(box, 100.) <= 0.);
	bucket_set(&box->requests, 4, 1, 100.);
	bucket_set(&slice->requests, 2, 2, 100.);
	level_take(box, 100.);
	ck_assert_double_eq_tol(level_wait(box, 100.), 0.25, 1e-6);
	/* What one has taken is gone for the others below the slice; its own limit is nobody else's. */
	ck_assert(level_wait(other, 100.) <= 0.);
	level_take(other, 100.);
	ck_assert_double_eq_tol(level_wait(other, 100.), 0.5, 1e-6);
	ck_assert_double_eq_tol(level_wait(box, 100.), 0.5, 1e-6);
	ck_assert(level_wait(box, 100.5) <= 0.);
	level_unref(other);
	level_unref(box);
}

TEST(a_tenants_own_limit_is_nobody_elses)
{
	struct level *slice = get("/slice"), *box = get("/slice/box");

	bucket_set(&slice->own_requests, 1, 1, 100.);
	level_take(slice, 100.);
	ck_assert_double_eq_tol(level_wait(slice, 100.), 1., 1e-6);
	ck_assert(level_wait(box, 100.) <= 0.);
	level_unref(box);
	level_unref(slice);
}

TEST(a_level_has_rested_when_all_tokens_are_back_here_and_above)
{
	struct level *box = get("/slice/box"), *slice = box->parent;

	ck_assert(level_is_rested(box, 100.));
	bucket_set(&box->own_requests, 4, 2, 100.);
	bucket_set(&box->requests, 2, 2, 100.);
	bucket_set(&slice->requests, 1, 2, 100.);
	ck_assert(level_is_rested(box, 100.));
	level_take(box, 100.);
	ck_assert(!level_is_rested(box, 100.));
	ck_assert(!level_is_rested(slice, 100.6));
	ck_assert(!level_is_rested(box, 100.6));
	ck_assert(level_is_rested(box, 101.));
	bucket_take(&box->own_requests, 101.);
	ck_assert(!level_is_rested(box, 101.1));
	level_unref(box);
}

TEST(a_level_rests_until_its_refusals_may_be_logged_again)
{
	struct level *box = get("/slice/box");

	level_refusals(box)[REFUSAL_NAME_TAKEN].since = 100.;
	ck_assert(!level_is_rested(box, 101.));
	ck_assert(level_is_rested(box->parent, 101.));
	ck_assert(!level_is_rested(box, 159.));
	ck_assert(level_is_rested(box, 161.));
	level_unref(box);
}

TEST(a_level_that_is_made_anew_has_no_limits)
{
	struct level *box = get("/box");

	box->max_connections = 0;
	bucket_set(&box->requests, 1, 1, 100.);
	level_take(box, 100.);
	level_unref(box);
	box = get("/box");
	ck_assert_ptr_null(level_find_crowded(box));
	ck_assert(level_wait(box, 100.) <= 0.);
	ck_assert_uint_eq(box->generation, 0);
	level_unref(box);
}

TEST(a_chain_that_finds_no_memory_leaves_what_was_there)
{
	static const char path[] = "/slice/one/two/three";
	struct level *slice = get("/slice"), *level = NULL;
	bool done = false;

	for (long allocations = 0; !done; allocations++) {
		allocations_left = allocations;
		done = level_get(&table, path, &level) == 0;
		allocations_left = -1;
		if (done)
			break;
		ck_assert_ptr_null(level);
		ck_assert_uint_eq(HASH_CNT(by_path, table), 2);
		ck_assert_uint_eq(slice->references, 1);
		ck_assert_int_lt(allocations, 20);
	}
	ck_assert_str_eq(level->path, path);
	level_unref(level);
	level_unref(slice);
	ck_assert_ptr_null(table);
}

TEST(a_first_level_that_finds_no_memory_leaves_nothing)
{
	struct level *level = NULL;
	int r = -ENOMEM;

	for (long allocations = 0; r < 0; allocations++) {
		allocations_left = allocations;
		r = level_get(&table, "/a", &level);
		allocations_left = -1;
		ck_assert(r == 0 || !table);
		ck_assert_int_lt(allocations, 20);
	}
	level_unref(level);
	ck_assert_ptr_null(table);
}
