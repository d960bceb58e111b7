/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A name that the keeper removed a moment ago and the kernel still has: the daemon asks again, and serves others meanwhile. */

#include "daemon/limits.h"
#include "daemon/registry/stream.h"
#include "tests/unit/world.h"

enum { EACH_TIME = 1000000 };

/* A world in which names settle with wait_for_answer() alone, however slow the machine is. */
static struct world *world_settling(void)
{
	struct world *world = world_new(10, 10);

	world->daemon->registry.w_settling.repeat = 3600.;
	return world;
}

#define SETTLING(name) _cleanup_(world_free) struct world *name = world_settling()

/* For as long as the daemon's timers need. */
static void wait_for_answer(struct end *end)
{
	struct registry *registry = &end->world->daemon->registry;

	registry->w_settling.repeat = SETTLE_INTERVAL;
	ev_timer_again(registry->loop, &registry->w_settling);
	while (!has_an_answer(end))
		ev_run(registry->loop, EVRUN_ONCE);
}

/* Meanwhile another client is served. */
TEST(settling_name_is_asked_for_again_and_granted)
{
	SETTLING(world);
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
	SETTLING(world);
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
	SETTLING(world);
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
	SETTLING(world);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, 1);
	REGISTER(&end, "event u32 x");
	expect_silence(&end);
	break_connection(&end);
	usleep(SETTLE_INTERVAL * 1e6);
	ev_invoke(world->daemon->loop, &world->daemon->registry.w_settling, EV_TIMER);
	turn(world);
	look_at_lingering(world);
	turn(world);
	expect_nothing_left(world);
}

TEST(daemon_that_ends_with_a_settling_name_ends_well)
{
	SETTLING(world);
	WELCOMED(end, world, 1);

	end.may_be_cut = true;
	refuse(KERNEL_REGISTER, KERNEL_E_SETTLING, 0, EACH_TIME);
	REGISTER(&end, "event u32 x");
	expect_silence(&end);
	ck_assert(!TAILQ_EMPTY(&world->daemon->registry.settling));
	world_end(world);
}
