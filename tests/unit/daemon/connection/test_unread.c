/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which clients with fds in flight the daemon asks about, and for which it waits. tests/integration/test_inflight.c has the effects. */

#include <sys/resource.h>

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/daemon.h"
#include "tests/unit/fake_kernel.h"

static unsigned count_unasked(const struct world *world)
{
	const struct client *client;
	unsigned n = 0;

	TAILQ_FOREACH(client, &world->daemon->connections.unasked, in_unasked)
		n++;
	return n;
}

TEST(few_clients_at_once_are_unasked)
{
	enum { CLIENTS = 3 * UNASKED_MAX };
	static struct end ends[CLIENTS];
	WORLD(world, 10, 10);

	for (unsigned i = 0; i < CLIENTS; i++) {
		ends[i] = end_new(world, (pid_t)i + 1);
		say_hello(&ends[i]);
		turn(world);
		ck_assert_uint_le(count_unasked(world), UNASKED_MAX);
	}
	ck_assert_uint_eq(world->daemon->connections.in_flight, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++)
		expect_welcome(&ends[i]);
	turn(world);
	inflight_look(&world->daemon->connections);
	ck_assert_uint_eq(count_unasked(world), 0);
	ck_assert_uint_eq(world->daemon->connections.in_flight, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		end_deinit(&ends[i]);
}

/* The fds of clients that have read are not known to be free before the daemon asks. */
TEST(fds_that_were_read_leave_room_for_others)
{
	enum { FEW = 40 };
	static struct end ends[FEW];
	WORLD(world, 10, 10);
	struct tenant *tenant;

	for (unsigned i = 0; i < FEW; i++) {
		ends[i] = end_new(world, (pid_t)i + 1);
		say_hello(&ends[i]);
		expect_welcome(&ends[i]);
	}
	ck_assert_uint_eq(world->daemon->connections.in_flight, FEW);
	world->daemon->connections.fds_limit = FEW;
	tenant = tenant_of(&ends[0]);
	ck_assert(inflight_has_room(&world->daemon->connections, tenant));
	ck_assert_uint_eq(world->daemon->connections.in_flight, 0);
	for (unsigned i = 0; i < FEW; i++)
		end_deinit(&ends[i]);
}
