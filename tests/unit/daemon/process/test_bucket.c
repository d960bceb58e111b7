/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/bucket.h"

#include "tests/suite.h"

/* Takes all tokens that there are. Returns their number. */
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

TEST(bucket_fills_at_its_rate)
{
	struct bucket bucket;

	bucket_init(&bucket, 4, 4, 100.);
	empty(&bucket, 100.);
	expect_wait(&bucket, 100., 0.25);
	expect_wait(&bucket, 100.125, 0.125);
	ck_assert_uint_eq(empty(&bucket, 100.25), 1);
	ck_assert_uint_eq(empty(&bucket, 100.75), 2);
	/* Many small steps add up to the rate. */
	for (unsigned i = 1; i <= 40; i++)
		ck_assert_uint_eq(empty(&bucket, 100.75 + i * 0.25), 1);
}

TEST(bucket_holds_its_burst_at_most)
{
	struct bucket bucket;

	bucket_init(&bucket, 1000, 3, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 3);
	ck_assert_uint_eq(empty(&bucket, 1e9), 3);
}

TEST(clock_set_back_changes_no_tokens)
{
	struct bucket bucket;

	bucket_init(&bucket, 10, 10, 100.);
	bucket_take(&bucket, 100.);
	bucket_take(&bucket, 99.);
	ck_assert_uint_eq(empty(&bucket, 98.), 8);
	expect_wait(&bucket, 98., 0.1);
}

TEST(tokens_are_counted)
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

TEST(same_limit_again_adds_no_tokens)
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

TEST(changed_limit_keeps_tokens_up_to_its_burst)
{
	struct bucket bucket;

	bucket_init(&bucket, 1, 5, 100.);
	bucket_set(&bucket, 10, 3, 100.);
	bucket_set(&bucket, 10, 20, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 3);
	expect_wait(&bucket, 100., 0.1);
}

TEST(first_limit_begins_full)
{
	struct bucket bucket;

	bucket_init(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	bucket_take(&bucket, 100.);
	bucket_set(&bucket, 1, 4, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 4);
	bucket_set(&bucket, UINT32_MAX, UINT32_MAX, 100.);
	ck_assert_uint_eq(empty(&bucket, 100.), 100);
}

TEST(largest_numbers_are_exact_enough)
{
	struct bucket bucket;

	/* The maximum of the policy, after an uptime of ten years. */
	bucket_init(&bucket, 1000000, 1000000, 3e8);
	for (unsigned i = 0; i < 1000000; i++)
		bucket_take(&bucket, 3e8);
	ck_assert(bucket_wait(&bucket, 3e8) > 0.);
	ck_assert(bucket_wait(&bucket, 3e8 + 2e-6) <= 0.);
}
