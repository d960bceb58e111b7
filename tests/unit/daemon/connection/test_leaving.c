/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Leases and files of clients that left are freed in many turns of the loop, each of which takes a bounded time. */

#include <sys/socket.h>

#include "daemon/connection/client.h"
#include "tests/unit/lists.h"

enum { LISTS = 4, LIST_EVENTS = 200, ALL = LISTS * LIST_EVENTS, MANY = 40, TURNS_MAX = 100 };

static void get_lists(struct end *end)
{
	for (unsigned i = 0; i < LISTS; i++) {
		const struct list list = list_of(i * LIST_EVENTS, LIST_EVENTS);

		get_list(end, &list);
	}
}

/* One turn of the loop, in which the daemon answers another client. */
static void turn_once(const struct world *world, struct end *other)
{
	uint8_t answer[1024];

	say_at_once(other, KIND_QUERY);
	for (unsigned i = 0; i < 2 && !has_an_answer(other); i++)
		ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert_int_gt(recv(other->socket, answer, sizeof(answer), MSG_DONTWAIT), 0);
}

/* The number falls to 0, by at most so much in each turn of the loop. */
static void expect_steps(const struct world *world, struct end *other, const uint32_t *left, unsigned most)
{
	for (unsigned i = 0; *left > 0; i++) {
		uint32_t before = *left;

		turn_once(world, other);
		ck_assert_uint_le(before - *left, 2 * most);
		ck_assert_uint_lt(i, TURNS_MAX);
	}
}

TEST(many_leases_end_in_many_turns)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(other, world, 2);
	uint32_t *leases = &world->daemon->registry.leases;

	get_lists(&greedy);
	ck_assert_uint_eq(*leases, ALL);
	greedy.socket = fd_close(greedy.socket);
	expect_steps(world, &other, leases, RELEASES_MAX);
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 1);
}

TEST(connection_ends_before_many_leases)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(other, world, 2);

	get_lists(&greedy);
	greedy.may_be_cut = true;
	client_close(greedy.client);
	turn_once(world, &other);
	ck_assert_uint_gt(world->daemon->registry.leases, ALL / 2);
	expect_disconnected(&greedy);
	turn(world);
}

TEST(many_events_of_a_stream_end_in_many_turns)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(other, world, 2);
	struct registry *registry = &world->daemon->registry;

	get_lists(&greedy);
	greedy.socket = fd_close(greedy.socket);
	turn(world);
	ck_assert_uint_eq(registry->leases, 0);
	ck_assert_uint_gt(registry->n_events, 2 * RELEASES_MAX);
	greedy.stream = fd_close(greedy.stream);
	look_at_lingering(world);
	ck_assert_uint_gt(registry->n_events, 0);
	expect_steps(world, &other, &registry->n_events, RELEASES_MAX);
	turn(world);
	ck_assert_ptr_null(registry->streams);
}

/* An event of a stream that is being freed is charged once, though a new stream has it already. */
TEST(event_of_an_ending_stream_is_granted_again)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(again, world, 1);
	struct registry *registry = &world->daemon->registry;
	const struct list list = list_of(0, LIST_EVENTS);

	get_lists(&greedy);
	greedy.socket = fd_close(greedy.socket);
	turn(world);
	stream_free(registry->streams);
	ck_assert(registry->streams->ends);
	get_list(&again, &list);
	turn(world);
	ck_assert_uint_eq(registry->n_events, LIST_EVENTS);
	expect_charged(world, LIST_EVENTS, LIST_EVENTS);
}

TEST(many_clients_leave_in_many_turns)
{
	GUARDED(world);
	WELCOMED(other, world, 2);
	const unsigned most = RELEASES_MAX / RELEASES_OF_CLIENT;
	struct end ends[MANY];

	for (unsigned i = 0; i < MANY; i++)
		ends[i] = end_welcomed(world, 1);
	for (unsigned i = 0; i < MANY; i++) {
		ends[i].may_be_cut = true;
		client_close(ends[i].client);
	}
	for (unsigned left = MANY + 1; left > 1; left = world->daemon->registry.n_holders) {
		turn_once(world, &other);
		ck_assert_uint_le(left - world->daemon->registry.n_holders, 2 * most);
	}
	for (unsigned i = 0; i < MANY; i++)
		end_deinit(&ends[i]);
}
