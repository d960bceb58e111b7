/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A restore that fails leaves everything to the next daemon; and the copies for the keeper are counted. */

#include "daemon/recovery/restore.h"

#include "tests/unit/fake_kernel.h"

/* --- fds --- */

/* The copies for the keeper, too. */
TEST(concurrent_hellos_leak_no_fd)
{
	KEPT(world);
	int before = count_open_fds();

	for (unsigned i = 0; i < 10; i++) {
		struct end ends[3];

		hold();
		for (size_t j = 0; j < ARRAY_SIZE(ends); j++) {
			ends[j] = end_new(world, 1);
			say_hello(&ends[j]);
		}
		expect_silence(&ends[0]);
		hold_no_more();
		for (size_t j = 0; j < ARRAY_SIZE(ends); j++)
			expect_welcome(&ends[j]);
		for (size_t j = 0; j < ARRAY_SIZE(ends); j++)
			end_deinit(&ends[j]);
	}
	ck_assert_int_eq(count_open_fds(), before);
}

/* Without a keeper, copies for it are not made. */
TEST(connections_without_keeper_leak_no_fd)
{
	KEPT(world);
	int before;

	hold();
	world->daemon->connections.keeper_has_gone = true;
	before = count_open_fds();
	for (unsigned i = 0; i < 20; i++) {
		END(end, world, 1);

		turn(world);
	}
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_int_eq(count_open_fds(), before);
	ck_assert_uint_eq(world->daemon->registry.copies, 0);
}

/* While the keeper does not answer, copies on their way to it are counted. */
TEST(copies_on_their_way_to_the_keeper_are_counted)
{
	KEPT(world);

	stay_young(world);
	{
		WELCOMED(end, world, 1);

		hold();
		grow_up(world);
		ck_assert_uint_eq(world->daemon->registry.copies, 1);
	}
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_uint_eq(world->daemon->registry.copies, 2);
	hold_no_more();
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.copies, 0);
}

/* --- failures --- */

/*
 * The next daemon fails to restore, and the one after it finds everything. `n`: its allocations, -1: all; `without_memory`: the
 * operations for which the keeper has no memory. The first daemon's result.
 */
static int fail_to_restore(long n, uint64_t without_memory)
{
	struct world *world = world_kept(false);
	int r;

	{
		WELCOMED(end, world, 1);

		get(&end, "hello u32 x");
		world_leave_daemon(world);
		fake.out_of_memory = without_memory;
		r = world_try_next_daemon(world, n);
		fake.out_of_memory = 0;
		if (r < 0) {
			world_leave_daemon(world);
			world_next_daemon(world);
		}
		ck_assert_msg(world->daemon->registry.n_holders == 1, "with %ld allocations a connection was lost", n);
		turn(world);
	}
	world_leave(&world);
	return r;
}

TEST(failed_restore_leaves_everything_to_the_next)
{
	static const enum kernel_op ops[] = { KERNEL_DEPOSITED, KERNEL_PAGE_FETCH, KERNEL_STREAM_FETCH, KERNEL_DEPOSIT,
					      KERNEL_DISOWN };
	unsigned failures = 0;

	for (long n = 1; n < 60; n++)
		failures += fail_to_restore(n, 0) < 0;
	ck_assert_uint_gt(failures, 5);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ck_assert_int_eq(fail_to_restore(-1, UINT64_C(1) << ops[i]), -ENOMEM);
}
