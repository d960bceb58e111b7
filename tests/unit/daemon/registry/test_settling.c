/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A name that the keeper removed a moment ago and the kernel still has: the daemon asks again, and serves others meanwhile. */

#include <poll.h>

#include "daemon/limits.h"
#include "daemon/registry/stream.h"
#include "tests/unit/world.h"

enum { EACH_TIME = 1000000 };

/* For as long as the daemon's timers need. */
static void wait_for_answer(struct end *end)
{
	struct pollfd ask = { .fd = end->socket, .events = POLLIN };

	while (poll(&ask, 1, 0) == 0)
		ev_run(end->world->daemon->loop, EVRUN_ONCE);
}

/* Meanwhile another client is served. */
TEST(settling_name_is_asked_for_again_and_granted)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	WELCOMED(other, world, 2);

	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, 1);
	REGISTER(&end, "event u32 x");
	get(&other, "other u32 x");
	expect_silence(&end);
	expect_asked(KERNEL_REGISTER, 2);
	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, 1);
	wait_for_answer(&end);
	expect_granted(&end);
	expect_asked(KERNEL_REGISTER, 4);
	expect_file(&end);
	ck_assert_uint_eq(query(&end).events, 1);
}

TEST(name_that_does_not_settle_is_refused_as_taken)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, EACH_TIME);
	REGISTER(&end, "event u32 x");
	wait_for_answer(&end);
	expect_refused(&end, REFUSAL_NAME_TAKEN);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 1 + SETTLE_TRIES);
	expect_no_charges(world);
}

/* In the middle of a batch, on a new stream. */
TEST(settling_name_in_a_batch_delays_no_call_before_it)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer[3];

	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 1, 1);
	REGISTER(&end, "one u32 x", "two u32 x", "three u32 x");
	expect_silence(&end);
	ck_assert_ptr_nonnull(world->daemon->registry.streams);
	ck_assert(world->daemon->registry.streams->made);
	wait_for_answer(&end);
	expect_answers(&end, answer, 3);
	for (size_t i = 0; i < ARRAY_SIZE(answer); i++)
		ck_assert_uint_eq(answer[i].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(query(&end).events, 3);
}

TEST(client_that_leaves_a_settling_name_leaves_nothing)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, 1);
	REGISTER(&end, "event u32 x");
	expect_silence(&end);
	break_connection(&end);
	while (!TAILQ_EMPTY(&world->daemon->registry.settling))
		ev_run(world->daemon->loop, EVRUN_ONCE);
	turn(world);
	look_at_lingering(world);
	turn(world);
	expect_nothing_left(world);
}

TEST(daemon_that_ends_with_a_settling_name_ends_well)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	end.may_be_cut = true;
	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, EACH_TIME);
	REGISTER(&end, "event u32 x");
	expect_silence(&end);
	ck_assert(!TAILQ_EMPTY(&world->daemon->registry.settling));
	world_end(world);
}
