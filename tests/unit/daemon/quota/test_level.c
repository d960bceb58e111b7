/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/quota/level.h"

#include "tests/suite.h"
#include "tests/unit/shortage.h"

static struct level *table;

static struct level *get(const char *path)
{
	struct level *level = NULL;

	ck_assert_int_eq(level_get(&table, path, &level), 0);
	return level;
}

TEST(path_has_a_level_for_each_part)
{
	static const char *const paths[] = { "/a/b/c", "/a/b", "/a", "/" };
	struct level *level = get(paths[0]);
	const struct level *part = level;
	bool own;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		ck_assert_str_eq(part->path, paths[i]);
		ck_assert_ptr_eq(level_of(level, &part->quota[RESOURCE_EVENTS], &own), part);
		ck_assert(!own);
		ck_assert_ptr_eq(level_of(level, &part->own[RESOURCE_FILES], &own), part);
		ck_assert(own);
		ck_assert_ptr_eq(part->own[RESOURCE_EVENTS].parent, &part->quota[RESOURCE_EVENTS]);
		ck_assert_ptr_eq(part->quota[RESOURCE_EVENTS].parent,
				 part->parent ? &part->parent->quota[RESOURCE_EVENTS] : NULL);
		part = part->parent;
	}
	ck_assert_ptr_null(part);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 4);
	level_unref(level);
	ck_assert_ptr_null(table);
}

TEST(level_ends_with_its_last_reference)
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

TEST(root_is_a_level)
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

TEST(path_without_slash_is_one_level)
{
	struct level *level = get("process:7:kworker/0:1"), *other = get("/process:7:kworker");

	ck_assert_str_eq(level->path, "process:7:kworker/0:1");
	ck_assert_str_eq(level->parent->path, "/");
	ck_assert_ptr_ne(level, other);
	level_unref(level);
	level_unref(other);
	ck_assert_ptr_null(table);
}

TEST(prefix_of_a_name_is_no_parent)
{
	struct level *one = get("/a/b"), *other = get("/a/bc");

	ck_assert_ptr_eq(one->parent, other->parent);
	level_unref(other);
	ck_assert_uint_eq(HASH_CNT(by_path, table), 3);
	level_unref(one);
	ck_assert_ptr_null(table);
}

TEST(connection_counts_at_all_levels_until_its_end)
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

TEST(nearest_level_without_room_is_found)
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
	/* More connections than the maximum allows now. */
	box->max_connections = 1;
	level_connect(box);
	level_connect(box);
	ck_assert_ptr_eq(level_find_crowded(box), box);
	level_disconnect(box);
	ck_assert_ptr_eq(level_find_crowded(box), box);
	level_disconnect(box);
	ck_assert_ptr_null(level_find_crowded(box));
	level_unref(box);
}

TEST(request_waits_for_the_slowest_level)
{
	struct level *box = get("/slice/box"), *other = get("/slice/other"), *slice = box->parent;

	ck_assert(level_wait(box, 100.) <= 0.);
	bucket_set(&box->requests, 4, 1, 100.);
	bucket_set(&slice->requests, 2, 2, 100.);
	level_take(box, 100.);
	ck_assert_double_eq_tol(level_wait(box, 100.), 0.25, 1e-6);
	/* All below the slice share its tokens; the limit of one does not apply to the other. */
	ck_assert(level_wait(other, 100.) <= 0.);
	level_take(other, 100.);
	ck_assert_double_eq_tol(level_wait(other, 100.), 0.5, 1e-6);
	ck_assert_double_eq_tol(level_wait(box, 100.), 0.5, 1e-6);
	ck_assert(level_wait(box, 100.5) <= 0.);
	level_unref(other);
	level_unref(box);
}

TEST(own_limit_does_not_apply_below)
{
	struct level *slice = get("/slice"), *box = get("/slice/box");

	bucket_set(&slice->own_requests, 1, 1, 100.);
	level_take(slice, 100.);
	ck_assert_double_eq_tol(level_wait(slice, 100.), 1., 1e-6);
	ck_assert(level_wait(box, 100.) <= 0.);
	level_unref(box);
	level_unref(slice);
}

TEST(level_is_rested_with_all_tokens)
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

TEST(level_is_not_rested_after_a_logged_refusal)
{
	struct level *box = get("/slice/box");

	level_refusals(box)[REFUSAL_NAME_TAKEN].since = 100.;
	ck_assert(!level_is_rested(box, 101.));
	ck_assert(level_is_rested(box->parent, 101.));
	ck_assert(!level_is_rested(box, 159.));
	ck_assert(level_is_rested(box, 161.));
	level_unref(box);
}

TEST(new_level_has_no_limits)
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

/* With a part of the levels, or without any level. */
TEST(failed_allocation_leaves_existing_levels)
{
	static const char path[] = "/slice/one/two/three";

	for (unsigned first = 0; first < 2; first++) {
		struct level *slice = first ? NULL : get("/slice"), *level = NULL;
		int r = -ENOMEM;

		for (long allocations = 0; r < 0; allocations++) {
			allocations_left = allocations;
			r = level_get(&table, path, &level);
			allocations_left = -1;
			if (r == 0)
				break;
			ck_assert_ptr_null(level);
			ck_assert_uint_eq(HASH_CNT(by_path, table), first ? 0 : 2);
			ck_assert(first || slice->references == 1);
			ck_assert_int_lt(allocations, 20);
		}
		ck_assert_str_eq(level->path, path);
		level_unref(level);
		level_unref(slice);
		ck_assert_ptr_null(table);
	}
}
