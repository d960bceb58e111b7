/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Clients that register on unguarded files by themselves, after the daemon has closed its copy. */

#include "daemon/registry/capacity.h"
#include "tests/unit/books.h"

/* The timer's look. */
static void look(struct world *world)
{
	world->daemon->registry.looked = 0.;
	if (streams_probe(&world->daemon->registry))
		capacity_look(&world->daemon->registry);
	turn(world);
}

static uint32_t capacity_with(struct world *world, uint32_t foreign)
{
	fake.foreign = foreign;
	world->daemon->registry.looked = 0.;
	capacity_look(&world->daemon->registry);
	turn(world);
	return world->daemon->registry.machine.capacity;
}

TEST(unknown_events_leave_less_room)
{
	UNGUARDED(world);
	uint32_t before;

	world->daemon->options.capacity = 0;
	before = capacity_with(world, 0);
	ck_assert_uint_eq(capacity_with(world, 3), before - 3);
	ck_assert_uint_eq(capacity_with(world, UINT32_MAX), 0);
}

/* --- self-registered events that a REGISTER reports --- */

TEST(self_registration_disconnects_after_the_answer)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	CLIENTS(c, world, 2);

	get(&c[0], "event u32 x");
	stream_of(&c[0])->jumps = true;
	get(&c[0], "more u32 x");
	expect_cut(&c[0], REFUSAL_SELF_REGISTERED);
	ck_assert_uint_eq(count_self_registered(&c[1]), 1);
	expect_silence(&c[1]);
	/* The new event is charged, too. */
	hang_up_and_keep(&c[0], &kept);
	ck_assert(look_at_lingering(world));
	ck_assert_uint_eq(query(&c[1]).events, 2);
	kept = fd_close(kept);
	look_at_lingering(world);
	ck_assert_uint_eq(query(&c[1]).events, 0);
}

/* --- files that are kept open after hanging up --- */

TEST(unknown_events_deny_a_tenant_with_a_kept_file)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(sibling, world, 1);
	WELCOMED(neighbour, world, 2);

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

		be_refused(&next, "next u32 x", REFUSAL_TROUBLE);
		/* Sent files stay, and other tenants are not affected. */
		get(&sibling, "more u32 x");
		get(&neighbour, "next u32 x");
		kept = fd_close(kept);
		look_at_lingering(world);
		get(&next, "next u32 x");
	}
}

TEST(unknown_events_deny_while_they_are_more)
{
	static const struct {
		bool guarded;
		uint32_t before;
		struct {
			uint32_t foreign;
			uint32_t refusal;
		} then[2];
	} cases[] = {
		/* They have gone. */
		{ false, 0, { { 1, REFUSAL_TROUBLE }, { 0, REFUSAL_NONE } } },
		/* Compared with the fewest: a program of root's has ended since, so its foreign events do not count any more. */
		{ false, 5, { { 1, REFUSAL_NONE }, { 2, REFUSAL_TROUBLE } } },
		{ true, 0, { { 7, REFUSAL_NONE }, { 8, REFUSAL_NONE } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(fd_closep) int kept = -1;
		_cleanup_(world_leave) struct world *world = world_on("prefer", cases[i].guarded);
		WELCOMED(end, world, 1);

		fake.foreign = cases[i].before;
		look(world);
		get(&end, "event u32 x");
		look(world);
		hang_up_and_keep(&end, &kept);
		for (size_t j = 0; j < 2; j++) {
			WELCOMED(next, world, 1);

			fake.foreign = cases[i].then[j].foreign;
			look(world);
			REGISTER(&next, "next u32 x");
			expect_each(&next, cases[i].then[j].refusal, 1);
		}
		kept = fd_close(kept);
		look_at_lingering(world);
	}
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

/* Some are charged when the kernel is asked, and refused later; others are charged when it answers, and not registered yet. */
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

TEST(tenant_of_a_self_registered_kept_file_gets_none)
{
	_cleanup_(fd_closep) int kept = -1;
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);
	WELCOMED(other, world, 2);

	get(&end, "event u32 x");
	stream_of(&end)->self_registered = true;
	hang_up_and_keep(&end, &kept);
	ck_assert_uint_eq(count_self_registered(&next), 1);
	be_refused(&next, "next u32 x", REFUSAL_TROUBLE);
	get(&other, "next u32 x");
	kept = fd_close(kept);
	look_at_lingering(world);
	get(&next, "next u32 x");
}
