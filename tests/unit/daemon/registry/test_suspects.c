/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs that register on their data files by themselves, where nothing guards these, while nobody can look at the file. */

#include "daemon/registry/capacity.h"
#include "tests/unit/books.h"

static struct fake_stream *stream_of(const struct end *end)
{
	struct fake_stream *stream = find_stream(end->heard.message.stream[0]);

	ck_assert_ptr_nonnull(stream);
	return stream;
}

static uint64_t refusals(const struct end *end)
{
	return tenant_of(end)->refusals[REFUSAL_SELF_REGISTERED];
}

/* As the clock does it. */
static void look(struct world *world)
{
	world->daemon->registry.looked = 0.;
	if (streams_probe(&world->daemon->registry))
		capacity_look(&world->daemon->registry);
	turn(world);
}

static void hang_up_and_keep(struct end *end, int *ret)
{
	*ret = fd_steal(&end->stream);
	end_hang_up(end);
	turn(end->world);
}

/* --- whoever they are of --- */

TEST(unknown_events_leave_less_room)
{
	UNGUARDED(world);
	uint32_t before;

	world->daemon->registry.capacity_max = 0;
	capacity_look(&world->daemon->registry);
	turn(world);
	before = world->daemon->registry.machine.capacity;
	fake.foreign = 3;
	world->daemon->registry.looked = 0.;
	capacity_look(&world->daemon->registry);
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.machine.capacity, before - 3);
	fake.foreign = UINT32_MAX;
	world->daemon->registry.looked = 0.;
	capacity_look(&world->daemon->registry);
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.machine.capacity, 0);
}

/* --- in the middle of a REGISTER --- */

TEST(index_that_jumps_cuts_the_client_after_its_answer)
{
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(other, world, 1);

	get(&end, "event u32 x");
	stream_of(&end)->jumps = true;
	REGISTER(&end, "more u32 x");
	expect_granted(&end);
	expect_cut(&end, REFUSAL_SELF_REGISTERED);
	ck_assert_uint_eq(refusals(&other), 1);
	expect_silence(&other);
}

TEST(event_behind_a_strangers_is_charged)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(other, world, 1);

	get(&end, "event u32 x");
	stream_of(&end)->jumps = true;
	REGISTER(&end, "more u32 x");
	expect_granted(&end);
	expect_cut(&end, REFUSAL_SELF_REGISTERED);
	hang_up_and_keep(&end, &kept);
	ck_assert(look_at_lingering(world));
	ck_assert_uint_eq(query(&other).events, 2);
	kept = fd_close(kept);
	look_at_lingering(world);
	ck_assert_uint_eq(query(&other).events, 0);
}

/* --- after hanging up --- */

TEST(unknown_events_deny_a_tenant_with_a_kept_file)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(sibling, world, 1);
	WELCOMED(stranger, world, 2);

	fake.foreign = 3;
	look(world);
	get(&end, "event u32 x");
	hang_up_and_keep(&end, &kept);
	look(world);
	get(&sibling, "sibling u32 x");
	fake.foreign++;
	look(world);
	{
		WELCOMED(next, world, 1);

		REGISTER(&next, "next u32 x");
		expect_refused(&next, REFUSAL_TROUBLE);
		/* A file that a program has it keeps, and others do not pay for it. */
		get(&sibling, "more u32 x");
		get(&stranger, "next u32 x");
		kept = fd_close(kept);
		look_at_lingering(world);
		get(&next, "next u32 x");
	}
}

TEST(unknown_events_that_have_gone_deny_nothing)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);

	look(world);
	get(&end, "event u32 x");
	look(world);
	hang_up_and_keep(&end, &kept);
	fake.foreign = 1;
	look(world);
	REGISTER(&next, "next u32 x");
	expect_refused(&next, REFUSAL_TROUBLE);
	fake.foreign = 0;
	look(world);
	get(&next, "next u32 x");
	kept = fd_close(kept);
	look_at_lingering(world);
}

/* A program of root's has ended since, and its events were no excuse for others. */
TEST(unknown_events_are_compared_with_the_fewest)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);

	fake.foreign = 5;
	get(&end, "event u32 x");
	look(world);
	hang_up_and_keep(&end, &kept);
	fake.foreign = 1;
	look(world);
	fake.foreign = 2;
	look(world);
	REGISTER(&next, "next u32 x");
	expect_refused(&next, REFUSAL_TROUBLE);
	kept = fd_close(kept);
	look_at_lingering(world);
}

TEST(unknown_events_do_no_harm_where_no_file_is_kept)
{
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);

	get(&end, "event u32 x");
	look(world);
	fake.foreign = 7;
	look(world);
	get(&next, "next u32 x");
	fd_close(fd_steal(&end.stream));
	end_hang_up(&end);
	get(&next, "more u32 x");
	ck_assert_ptr_null(LIST_FIRST(&world->daemon->registry.unwatched));
}

/* Some are charged when the kernel is asked, and refused; others when it answers, and not made yet. */
TEST(events_under_way_are_not_unknown)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(refused, world, 1);
	WELCOMED(busy, world, 1);
	WELCOMED(next, world, 1);
	struct answer answer[3];

	fake.foreign = 3;
	look(world);
	get(&end, "event u32 x");
	hang_up_and_keep(&end, &kept);
	hold();
	REGISTER(&refused, "one u32 x", "two u32 x", "three u32 x");
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 3);
	turn(world);
	look(world);
	REGISTER(&busy, "four u32 x", "five u32 x", "six u32 x");
	turn(world);
	while (world->daemon->registry.looking)
		answer_one();
	hold_no_more();
	expect_answers(&refused, answer, 3);
	expect_answers(&busy, answer, 3);
	look(world);
	get(&next, "next u32 x");
	kept = fd_close(kept);
	look_at_lingering(world);
}

TEST(tenant_whose_stranger_keeps_its_file_gets_none)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);
	WELCOMED(other, world, 2);

	get(&end, "event u32 x");
	stream_of(&end)->self_registered = true;
	hang_up_and_keep(&end, &kept);
	ck_assert_uint_eq(refusals(&next), 1);
	REGISTER(&next, "next u32 x");
	expect_refused(&next, REFUSAL_TROUBLE);
	get(&other, "next u32 x");
	kept = fd_close(kept);
	look_at_lingering(world);
	get(&next, "next u32 x");
}

TEST(kept_file_that_is_guarded_makes_nobody_a_suspect)
{
	_cleanup_(fd_closep) int kept = -1;
	GUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);

	get(&end, "event u32 x");
	hang_up_and_keep(&end, &kept);
	fake.foreign = 7;
	look(world);
	get(&next, "next u32 x");
	kept = fd_close(kept);
	look_at_lingering(world);
}
