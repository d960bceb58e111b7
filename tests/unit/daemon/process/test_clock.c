/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Somebody sets the machine's clock, back or on: whoever was given so many seconds has them all, and not one more. */

#include <sys/syscall.h>
#include <sys/time.h>

#include "daemon/process/clock.h"
#include "protocol/row.h"
#include "tests/unit/world.h"

enum { HOUR = 3600, SOMEBODY = 7, PATIENCE = 1 };

/* By how much somebody has set the clock. */
static time_t set_by;

/* For libev, which asks this one, and finds it before the C library's. */
__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	int r = (int)syscall(SYS_gettimeofday, ret, zone);

	ret->tv_sec += set_by;
	return r;
}

/* libev looks at the clock every half second, at most. */
static void set_clock(struct world *world, time_t by)
{
	set_by = by;
	usleep(600000);
	turn(world);
}

static void wait_for_one_to_be_cut(struct world *world)
{
	double begun = clock_now();

	/* Longer than it may take, and shorter than an hour. */
	while (world->daemon->registry.n_holders == 2 && clock_now() - begun < 60) {
		turn(world);
		usleep(10000);
	}
	ck_assert_msg(world->daemon->registry.n_holders == 1, "who says nothing is still there");
}

/* Of who was there before, also when somebody comes later. */
static void expect_patience_to_be_the_same(time_t by)
{
	double begun = clock_now();
	WORLD(world, 10, 10);
	struct end silent, later;

	world->daemon->connections.client_timeout = PATIENCE;
	silent = end_new(world, SOMEBODY);
	turn(world);
	set_clock(world, by);
	later = end_new(world, SOMEBODY);
	wait_for_one_to_be_cut(world);
	ck_assert_msg(clock_now() - begun >= PATIENCE, "its time was not up yet");
	expect_cut(&silent, REFUSAL_TOO_SLOW);
	end_deinit(&later);
	end_deinit(&silent);
}

TEST(who_says_nothing_is_cut_off_though_the_clock_was_set_back)
{
	expect_patience_to_be_the_same(-HOUR);
}

TEST(who_says_nothing_yet_is_not_cut_off_when_the_clock_is_set_on)
{
	expect_patience_to_be_the_same(HOUR);
}

static uint64_t uptime(struct world *world)
{
	ADMIN(admin, world);
	struct cursor rows = ask_for_rows(&admin, KIND_STATUS, 1);

	return row_get_u64(next_row(&rows), "uptime");
}

TEST(a_daemon_is_as_old_as_it_is_though_the_clock_was_set)
{
	WORLD(world, 10, 10);

	set_clock(world, -HOUR);
	ck_assert_uint_lt(uptime(world), HOUR);
	set_clock(world, HOUR);
	ck_assert_uint_lt(uptime(world), HOUR);
}
