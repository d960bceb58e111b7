/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Connections that the keeper does not have yet, because they are too young. test_restore.c has the others. */

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/daemon.h"
#include "tests/unit/fake_kernel.h"

TEST(young_connection_is_kept_at_a_clean_end)
{
	KEPT(world);

	stay_young(world);
	{
		WELCOMED(end, world, 1);

		get(&end, "hello u32 x");
		ck_assert_uint_eq(count_deposits(), 1);
		world_restart(world);
		ck_assert_uint_eq(count_deposits(), 2);
		expect_silence(&end);
		ck_assert_uint_eq(query(&end).leases, 1);
	}
	expect_all_gone(world);
}

static void ask_while_held(struct end *end)
{
	hold();
	REGISTER(end, "hello u32 x");
	expect_silence(end);
}

TEST(client_is_deposited_once_its_request_is_answered)
{
	KEPT(world);

	stay_young(world);
	WELCOMED(end, world, 1);
	ask_while_held(&end);
	grow_up(world);
	ck_assert_uint_eq(count_deposits(), 1);
	hold_no_more();
	expect_granted(&end);
	grow_up(world);
	ck_assert_uint_eq(count_deposits(), 2);
	ck_assert(!ev_is_active(&world->daemon->connections.w_deferred));
	world_restart(world);
	ck_assert_uint_eq(query(&end).leases, 1);
}

/* Its request is neither in its socket nor answered. */
TEST(young_client_with_pending_request_is_disconnected)
{
	KEPT(world);

	stay_young(world);
	WELCOMED(end, world, 1);
	ask_while_held(&end);
	world_restart(world);
	expect_disconnected(&end);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
}

/* One of them waits for the kernel, and is passed over. */
TEST(many_young_connections_are_deposited_in_parts)
{
	enum { MANY = DEFERRED_MAX + 2 };
	static struct end ends[MANY];
	KEPT(world);

	stay_young(world);
	for (unsigned i = 0; i < MANY; i++)
		ends[i] = end_welcomed(world, 1);
	ask_while_held(&ends[0]);
	grow_up(world);
	ck_assert_uint_eq(world->daemon->registry.copies, DEFERRED_MAX - 1);
	ck_assert(ev_is_active(&world->daemon->connections.w_deferred));
	grow_up(world);
	ck_assert_uint_eq(world->daemon->registry.copies, MANY - 1);
	hold_no_more();
	expect_granted(&ends[0]);
	grow_up(world);
	turn(world);
	ck_assert_uint_eq(count_deposits(), 1 + MANY);
	ck_assert(!ev_is_active(&world->daemon->connections.w_deferred));
	for (unsigned i = 0; i < MANY; i++)
		end_deinit(&ends[i]);
}

TEST(connection_that_ends_young_is_never_deposited)
{
	KEPT(world);

	stay_young(world);
	{
		WELCOMED(end, world, 1);

		hold();
	}
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_uint_eq(world->daemon->registry.copies, 0);
	grow_up(world);
	ck_assert(!ev_is_active(&world->daemon->connections.w_deferred));
	hold_no_more();
}

/* It counts until the peer has read the fds that it was sent, also for the next daemon. */
TEST(connection_that_ends_unread_is_deposited)
{
	KEPT(world);
	END(end, world, 1);

	stay_young(world);
	say_hello(&end);
	turn(world);
	say_simply(&end, KIND_STATUS);
	turn(world);
	ck_assert_int_eq(end.client->life, LIFE_ENDED);
	ck_assert_uint_eq(count_deposits(), 2);
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 1);
	expect_welcome(&end);
	end_hang_up(&end);
	expect_all_gone(world);
	ck_assert_uint_eq(count_deposits(), 1);
}

/* A daemon is killed after it has released, and before it has answered: the next one finds the request again. */
TEST(repeated_release_is_answered_as_the_first_time)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	say_release(&end, 7);
	expect_released(&end, 0);
	world_restart(world);
	say_release(&end, 7);
	expect_released(&end, 1);
	say_release(&end, 7);
	expect_released(&end, 0);
}
