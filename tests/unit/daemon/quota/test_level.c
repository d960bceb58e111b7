/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/quota/level.h"

#include "tests/suite.h"

static struct level *table;

static struct level *get(const char *path)
{
	struct level *level = NULL;

	ck_assert_int_eq(level_get(&table, path, &level), 0);
	return level;
}

TEST(nearest_level_without_room_is_found)
{
	struct level *box = get("/slice/box"), *slice = box->parent;
	struct quota *own = &box->own[RESOURCE_CONNECTIONS];

	quota_hold(own);
	ck_assert_ptr_null(quota_find_full(own));
	level_set_maximum(slice->parent, RESOURCE_CONNECTIONS, 1, true);
	ck_assert_ptr_eq(quota_find_full(own), &slice->parent->quota[RESOURCE_CONNECTIONS]);
	level_set_maximum(slice, RESOURCE_CONNECTIONS, 1, true);
	ck_assert_ptr_eq(quota_find_full(own), &slice->quota[RESOURCE_CONNECTIONS]);
	/* A default maximum is that of the path alone. */
	level_set_maximum(box, RESOURCE_CONNECTIONS, 1, false);
	ck_assert_ptr_eq(quota_find_full(own), own);
	ck_assert_ptr_eq(quota_find_full(&slice->own[RESOURCE_CONNECTIONS]), &slice->quota[RESOURCE_CONNECTIONS]);
	quota_release(own);
	ck_assert_ptr_null(quota_find_full(own));
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

	box->refusals = calloc(REFUSAL_MAX_, sizeof(*box->refusals));
	ck_assert_ptr_nonnull(box->refusals);
	box->refusals[REFUSAL_NAME_TAKEN].since = 100.;
	ck_assert(!level_is_rested(box, 101.));
	ck_assert(level_is_rested(box->parent, 101.));
	ck_assert(!level_is_rested(box, 159.));
	ck_assert(level_is_rested(box, 161.));
	level_unref(box);
}
