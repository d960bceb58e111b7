/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which clients with fds in flight the daemon asks about, and for which it waits. tests/integration/test_inflight.c has the effects. */

#include <sys/resource.h>

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/daemon.h"
#include "tests/unit/fake_kernel.h"

/* The daemon waits for those that have not read a moment later, and for no others. */
TEST(clients_that_do_not_read_are_watched)
{
	WORLD(world, 10, 10);
	WELCOMED(reads, world, 1);
	END(does_not, world, 2);

	stay_young(world);
	say_hello(&does_not);
	turn(world);
	ck_assert_uint_eq(world->daemon->connections.in_flight, 1);
	ck_assert(!does_not.client->awaited);
	grow_up(world);
	ck_assert(does_not.client->awaited);
	ck_assert(!reads.client->awaited);
	ck_assert(TAILQ_EMPTY(&world->daemon->connections.deferred));
	expect_welcome(&does_not);
	turn(world);
	ck_assert_uint_eq(world->daemon->connections.in_flight, 0);
	ck_assert(!does_not.client->awaited);
}

/* A client that reads late, after its next request and a moment later. */
TEST(client_stalled_by_unread_files_goes_on)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	stay_young(world);
	for (unsigned i = 0; i < 2; i++) {
		REGISTER(&end, i == 0 ? "first u32 x" : "second u32 x");
		turn(world);
		say_simply(&end, KIND_QUERY);
		turn(world);
		if (i == 0)
			ck_assert_int_eq(end.client->stall, STALL_UNREAD);
		grow_up(world);
		expect_granted(&end);
		turn(world);
		expect(&end, KIND_ACCOUNT);
	}
	expect_silence(&end);
}

/* The fds of clients that have read are not known to be free before the daemon asks. */
TEST(fds_that_were_read_leave_room_for_others)
{
	enum { FEW = 40 };
	static struct end ends[FEW];
	struct rlimit limit;
	WORLD(world, 10, 10);

	stay_young(world);
	for (unsigned i = 0; i < FEW; i++) {
		ends[i] = end_new(world, (pid_t)i + 1);
		say_hello(&ends[i]);
		expect_welcome(&ends[i]);
	}
	ck_assert_uint_eq(world->daemon->connections.in_flight, FEW);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = FEW;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert(inflight_has_room(&world->daemon->connections, tenant_of(&ends[0])));
	ck_assert_uint_eq(world->daemon->connections.in_flight, 0);
	for (unsigned i = 0; i < FEW; i++)
		end_deinit(&ends[i]);
}
