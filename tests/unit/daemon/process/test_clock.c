/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Changes of the machine's clock do not affect timeouts. */

#include <sys/syscall.h>
#include <sys/time.h>

#include "daemon/process/clock.h"
#include "protocol/row.h"
#include "tests/unit/world.h"

enum { HOUR = 3600, TENANT = 7, TIMEOUT = 1 };

/* Seconds by which the clock was set. */
static time_t set_by;

/* Replaces the C library's function for libev. */
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

static void wait_for_disconnection(struct world *world)
{
	double begun = clock_now();

	/* Longer than the timeout on any machine, and shorter than the change of the clock. */
	while (world->daemon->registry.n_holders == 2 && clock_now() - begun < 60) {
		turn(world);
		usleep(10000);
	}
	ck_assert_msg(world->daemon->registry.n_holders == 1, "the silent client is still connected");
}

/* Of a client that connected before the change, also if another client connects after it. */
static void expect_same_timeout(time_t by)
{
	double begun = clock_now();
	WORLD(world, 10, 10);
	struct end silent, later;

	world->daemon->options.client_timeout = TIMEOUT;
	silent = end_new(world, TENANT);
	turn(world);
	set_clock(world, by);
	later = end_new(world, TENANT);
	wait_for_disconnection(world);
	ck_assert_msg(clock_now() - begun >= TIMEOUT, "disconnected too early");
	expect_cut(&silent, REFUSAL_TOO_SLOW);
	end_deinit(&later);
	end_deinit(&silent);
}

TEST(silent_client_times_out_after_clock_set_back)
{
	expect_same_timeout(-HOUR);
}

TEST(silent_client_keeps_its_time_after_clock_set_on)
{
	expect_same_timeout(HOUR);
}

static uint64_t uptime(struct world *world)
{
	ADMIN(admin, world);
	struct cursor rows = ask_for_rows(&admin, KIND_STATUS, 1);

	return row_get_u64(next_row(&rows), "uptime");
}

TEST(uptime_ignores_changes_of_the_clock)
{
	WORLD(world, 10, 10);

	set_clock(world, -HOUR);
	ck_assert_uint_lt(uptime(world), HOUR);
	set_clock(world, HOUR);
	ck_assert_uint_lt(uptime(world), HOUR);
}
