/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/bucket.h"

#include "tests/suite.h"

/* How many can be taken at once. */
static unsigned empty(struct bucket *bucket, double now)
{
	unsigned taken = 0;

	while (taken < 100 && bucket_wait(bucket, now) <= 0.) {
		bucket_take(bucket, now);
		taken++;
	}
	return taken;
}

static void expect_wait(const struct bucket *bucket, double now, double seconds)
{
	double wait = bucket_wait(bucket, now);

	ck_assert_msg(wait > seconds - 1e-6 && wait < seconds + 1e-6, "%g seconds instead of %g", wait, seconds);
}

TEST(a_bucket_begins_full_and_holds_its_burst)
{
	struct bucket bucket;

	bucket_init(&bucket, 2, 5, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 5);
	expect_wait(&bucket, 100., 0.5);
}

TEST(it_fills_at_its_rate)
{
	struct bucket bucket;

	bucket_init(&bucket, 4, 4, 100.);
	empty(&bucket, 100.);
	expect_wait(&bucket, 100., 0.25);
	expect_wait(&bucket, 100.125, 0.125);
	ck_assert_uint_eq(empty(&bucket, 100.25), 1);
	ck_assert_uint_eq(empty(&bucket, 100.75), 2);
	/* In the long run it is the rate, however it is asked. */
	for (unsigned i = 1; i <= 40; i++)
		ck_assert_uint_eq(empty(&bucket, 100.75 + i * 0.25), 1);
}

TEST(part_of_a_token_is_none_and_is_not_lost)
{
	struct bucket bucket;

	bucket_init(&bucket, 1, 1, 100.);
	empty(&bucket, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.75), 0);
	expect_wait(&bucket, 100.75, 0.25);
	ck_assert_uint_eq(empty(&bucket, 101.), 1);
}

TEST(it_never_holds_more_than_its_burst)
{
	struct bucket bucket;

	bucket_init(&bucket, 1000, 3, 100.);
	ck_assert_uint_eq(empty(&bucket, 1e9), 3);
}

TEST(without_a_limit_nobody_ever_waits)
{
	struct bucket bucket;

	bucket_init(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 100);
}

TEST(a_clock_that_goes_back_gives_nothing_and_takes_nothing)
{
	struct bucket bucket;

	bucket_init(&bucket, 10, 10, 100.);
	bucket_take(&bucket, 100.);
	bucket_take(&bucket, 99.);
	ck_assert_uint_eq(empty(&bucket, 98.), 8);
	expect_wait(&bucket, 98., 0.1);
}

TEST(it_tells_what_is_in_it)
{
	struct bucket bucket;

	bucket_init(&bucket, 2, 3, 100.);
	ck_assert_uint_eq(bucket_tokens(&bucket, 100.), 3);
	ck_assert(bucket_is_full(&bucket, 100.));
	bucket_take(&bucket, 100.);
	bucket_take(&bucket, 100.);
	ck_assert_uint_eq(bucket_tokens(&bucket, 100.4), 1);
	ck_assert_uint_eq(bucket_tokens(&bucket, 100.5), 2);
	ck_assert(!bucket_is_full(&bucket, 100.9));
	ck_assert(bucket_is_full(&bucket, 101.));
	bucket_init(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	bucket_take(&bucket, 100.);
	ck_assert(bucket_is_full(&bucket, 100.));
}

TEST(the_same_limit_once_more_is_no_gift)
{
	struct bucket bucket;

	bucket_init(&bucket, 1, 5, 100.);
	empty(&bucket, 100.);
	for (unsigned i = 0; i < 10; i++)
		bucket_set(&bucket, 1, 5, 100.);
	expect_wait(&bucket, 100., 1.);
	bucket_set(&bucket, 1, 5, 102.);
	ck_assert_uint_eq(empty(&bucket, 102.), 2);
}

TEST(another_limit_keeps_what_there_is_room_for)
{
	struct bucket bucket;

	bucket_init(&bucket, 1, 5, 100.);
	bucket_set(&bucket, 10, 3, 100.);
	bucket_set(&bucket, 10, 20, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 3);
	expect_wait(&bucket, 100., 0.1);
}

TEST(a_limit_where_there_was_none_begins_full)
{
	struct bucket bucket;

	bucket_init(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	bucket_take(&bucket, 100.);
	bucket_set(&bucket, 1, 4, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 4);
	bucket_set(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 100);
}

TEST(the_largest_numbers_are_exact_enough)
{
	struct bucket bucket;

	/* As the policy has them, on a machine that has been up for ten years. */
	bucket_init(&bucket, 1000000, 1000000, 3e8);
	for (unsigned i = 0; i < 1000000; i++)
		bucket_take(&bucket, 3e8);
	ck_assert(bucket_wait(&bucket, 3e8) > 0.);
	ck_assert(bucket_wait(&bucket, 3e8 + 2e-6) <= 0.);
}
