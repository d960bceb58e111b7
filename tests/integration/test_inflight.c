/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Fds in flight: the daemon has sent them, and the client has not read the answer yet. */

#include <signal.h>
#include <sys/socket.h>

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/pair.h"

static bool has(const struct fixture *fixture, const char *key, uint64_t wanted)
{
	return status_number(fixture, key) == wanted;
}

/* The daemon has had its turns: another client of the same tenant asked after, and was answered. */
static void let_others_have_their_turn(const struct fixture *fixture)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);

	for (unsigned i = 0; i < 10; i++)
		raw_query(socket);
	close(socket);
}

DAEMON_TEST(request_behind_unread_files_waits)
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	ck_assert(eventually(has(fixture, "in_flight", 0)));
	send_register(socket, "first u32 a");
	send_register(socket, "second u32 a");
	ck_assert(eventually(has(fixture, "in_flight", 1)));
	let_others_have_their_turn(fixture);
	ck_assert_uint_eq(status_number(fixture, "leases"), 1);
	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	/* Its file is there already, and comes once. */
	expect_kind_with_fds(socket, KIND_REGISTERED, 0);
	ck_assert_uint_eq(status_number(fixture, "leases"), 2);
	ck_assert(eventually(has(fixture, "in_flight", 0)));
}

DAEMON_TEST(request_behind_an_unread_page_is_answered)
{
	_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

	ck_assert(actor_greet(socket));
	send_register(socket, "first u32 a");
	ck_assert(eventually(has(fixture, "leases", 1)));
	ck_assert(eventually(has(fixture, "in_flight", 2)));
	ck_assert_uint_eq(tenant_number(fixture, "in_flight"), 2);
	expect_kind_with_fds(socket, KIND_WELCOME, 1);
	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	ck_assert(eventually(has(fixture, "in_flight", 0)));
	ck_assert_uint_eq(tenant_number(fixture, "in_flight"), 0);
}

static int leave_files_unread(const struct fixture *fixture)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);

	ck_assert(eventually(has(fixture, "in_flight", 0)));
	send_register(socket, "unread u32 a");
	ck_assert(eventually(has(fixture, "in_flight", 1)));
	return socket;
}

/* All that it held is given back; the connection still counts. */
static void expect_only_its_place(const struct fixture *fixture)
{
	ck_assert(eventually(has(fixture, "leases", 0)));
	ck_assert_uint_eq(status_number(fixture, "connections"), 1);
	ck_assert_uint_eq(status_number(fixture, "in_flight"), 1);
}

DAEMON_TEST(shut_down_connection_counts_until_files_are_read)
{
	int socket;

	socket = leave_files_unread(fixture);
	ck_assert_int_eq(shutdown(socket, SHUT_RDWR), 0);
	expect_only_its_place(fixture);
	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	ck_assert(eventually(has(fixture, "connections", 0)));
	close(socket);
}

/* The nonsense is read when the files are; so it takes a page, after which more is read. */
DAEMON_TEST(rejected_connection_counts_until_it_is_closed)
{
	int socket;

	socket = raw_connect(fixture->socket);
	ck_assert(actor_greet(socket));
	ck_assert(eventually(has(fixture, "in_flight", 1)));
	ck_assert_int_eq(transport_send(socket, "x", 1, NULL, 0, 0), 0);
	let_others_have_their_turn(fixture);
	ck_assert(eventually(has(fixture, "connections", 1)));
	ck_assert_uint_eq(status_number(fixture, "in_flight"), 1);
	close(socket);
	ck_assert(eventually(has(fixture, "connections", 0)));
}

DAEMON_TEST(closed_connection_leaves_nothing_in_flight)
{
	close(leave_files_unread(fixture));
	ck_assert(eventually(has(fixture, "connections", 0)));
	ck_assert_uint_eq(status_number(fixture, "in_flight"), 0);
}

DAEMON_TEST(ended_connection_keeps_its_place_among_the_maximum, .policy = "[Daemon]\nDefaultMaxConnections=1\n")
{
	int socket, another;

	socket = leave_files_unread(fixture);
	ck_assert_int_eq(shutdown(socket, SHUT_RDWR), 0);
	expect_only_its_place(fixture);
	another = raw_connect(fixture->socket);
	expect_cut(another, REFUSAL_TOO_MANY_CONNECTIONS);
	close(another);
	close(socket);
	ck_assert(eventually(has(fixture, "connections", 0)));
	close(fixture_client(fixture));
}

/* One connection lives, and one has ended and keeps its place. */
TEST(next_daemon_counts_what_is_unread)
{
	struct pair pair;
	int living, ended;

	if (!pair_start(&pair, "--guard=prefer"))
		return;
	ended = leave_files_unread(&pair.fixture);
	ck_assert_int_eq(shutdown(ended, SHUT_RDWR), 0);
	expect_only_its_place(&pair.fixture);
	living = raw_hello(pair.fixture.socket, 0, NULL, NULL);
	send_register(living, "unread u32 a");
	ck_assert(eventually(has(&pair.fixture, "leases", 1)));
	pair_end_daemon(&pair, SIGKILL);
	pair_start_daemon(&pair);
	pair_wait(&pair);
	ck_assert(eventually(has(&pair.fixture, "in_flight", 2)));
	ck_assert_uint_eq(status_number(&pair.fixture, "connections"), 2);
	ck_assert_uint_eq(status_number(&pair.fixture, "leases"), 1);
	expect_kind_with_fds(living, KIND_REGISTERED, 1);
	ck_assert(eventually(has(&pair.fixture, "in_flight", 1)));
	ck_assert_uint_eq(raw_query(living).leases, 1);
	close(ended);
	ck_assert(eventually(has(&pair.fixture, "connections", 1)));
	close(living);
	pair_stop(&pair);
}
