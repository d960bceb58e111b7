/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Blocked tenants: their clients, their files, and their end. */

#include "daemon/limits.h"
#include "daemon/registry/event.h"
#include "daemon/registry/silence.h"
#include "tests/unit/daemon/admin/silence_requests.h"

TEST(blocked_tenant_is_disconnected_with_a_sentence)
{
	struct string_item sentence;
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(out, world, 1);
	WELCOMED(idle, world, 1);
	WELCOMED(other, world, 2);
	struct outcome outcome;

	get(&out, EVENT);
	get(&other, EVENT);
	SAY(&admin, ASK_BLOCK, path_of(&out));
	outcome = expect_done(&admin, 1);
	ck_assert(outcome.tenants == 1 && outcome.files == 1 && outcome.connections == 2);
	ck_assert(is_silent(&other, EVENT) == false);
	sentence = expect_error(&out, KIND_ERROR, REFUSAL_NOT_PERMITTED);
	ck_assert(memmem(sentence.text, sentence.length, "blocked", 7));
	expect_disconnected(&out);
	expect_cut(&idle, REFUSAL_NOT_PERMITTED);
	query(&other);
	out.stream = fd_close(out.stream);
	look_at_lingering(world);
	SAY(&admin, ASK_UNBLOCK, outcome.tenant);
	ck_assert(expect_done(&admin, 1).changes);
}

/* A file that a program holds lingers, and its event is silent. */
TEST(blocked_tenants_file_is_silent_until_it_is_closed)
{
	_cleanup_(fd_closep) int held = -1;
	char path[64];
	GUARDED(world);
	ADMIN(admin, world);
	{
		WELCOMED(out, world, 1);

		get(&out, EVENT);
		held = dup(out.stream);
		string_copy(path, sizeof(path), path_of(&out));
		SAY(&admin, ASK_BLOCK, path);
		expect_done(&admin, 1);
		expect_cut(&out, REFUSAL_NOT_PERMITTED);
	}
	turn(world);
	ck_assert(find_event(EVENT)->silent);
	SAY(&admin, ASK_UNBLOCK, path);
	ck_assert_uint_eq(expect_done(&admin, 1).files, 1);
	ck_assert(!find_event(EVENT)->silent);
	close(fd_steal(&held));
}

/* Some in each turn of the loop; the answer comes behind the last. */
TEST(thousands_of_clients_are_disconnected_in_turns)
{
	enum { CLIENTS = 5 * EXPELLED_AT_ONCE + 3 };
	static struct end ends[CLIENTS];
	char path[64];
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(other, world, 2);
	unsigned turns = 0, left = CLIENTS;

	for (unsigned i = 0; i < CLIENTS; i++)
		ends[i] = end_welcomed(world, 1);
	string_copy(path, sizeof(path), path_of(&ends[0]));
	world->stands_still = true;
	SAY(&admin, ASK_BLOCK, path);
	world->stands_still = false;
	for (; left > 0 && turns < 100; turns++) {
		const unsigned before = left;

		ev_run(world->daemon->loop, EVRUN_NOWAIT);
		left = 0;
		for (struct client *client = TAILQ_FIRST(&world->daemon->connections.clients); client;
		     client = TAILQ_NEXT(client, all))
			left += client->life == LIFE_OPEN && client->holder.tenant &&
				streq(client->holder.tenant->path, path);
		ck_assert_uint_le(before - left, 2 * EXPELLED_AT_ONCE);
		ck_assert(left == 0 || !has_an_answer(&admin));
	}
	ck_assert_uint_gt(turns, 3);
	turn(world);
	ck_assert_uint_eq(expect_done(&admin, 1).connections, CLIENTS);
	query(&other);
	for (unsigned i = 0; i < CLIENTS; i++) {
		expect_cut(&ends[i], REFUSAL_NOT_PERMITTED);
		end_deinit(&ends[i]);
	}
	SAY(&admin, ASK_UNBLOCK, path);
	expect_done(&admin, 1);
}

TEST(blocked_client_is_disconnected_after_a_restart)
{
	KEPT(world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);

	get(&one, EVENT);
	/* The daemon ends before it has disconnected anybody. */
	ck_assert_int_eq(silence_add(&world->daemon->registry, SILENCE_BLOCK, "", path_of(&one), NULL), 0);
	world_restart(world);
	turn(world);
	expect_cut(&one, REFUSAL_NOT_PERMITTED);
	query(&two);
}
