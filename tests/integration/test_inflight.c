/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Fds in flight: the daemon has sent them, and the client has not read the answer yet. */

#include <signal.h>
#include <sys/socket.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/pair.h"

/* Another client of the same tenant sends requests and is answered: the daemon has had time for all clients. */
static void let_others_have_their_turn(const struct fixture *fixture)
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	for (unsigned i = 0; i < 10; i++)
		raw_query(socket);
}

DAEMON_TEST(request_behind_unread_files_waits)
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	await_status(fixture, "in_flight=0");
	send_register(socket, "first u32 a");
	send_register(socket, "second u32 a");
	await_status(fixture, "in_flight=1");
	let_others_have_their_turn(fixture);
	expect_status(fixture, "leases=1");
	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	/* The client has the file already. */
	expect_kind_with_fds(socket, KIND_REGISTERED, 0);
	expect_status(fixture, "leases=2");
	await_status(fixture, "in_flight=0");
}

DAEMON_TEST(request_behind_an_unread_page_is_answered)
{
	_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

	ck_assert(actor_greet(socket));
	send_register(socket, "first u32 a");
	await_status(fixture, "leases=1 in_flight=2");
	expect_tenant(fixture, "in_flight=2");
	expect_kind_with_fds(socket, KIND_WELCOME, 1);
	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	await_status(fixture, "in_flight=0");
	expect_tenant(fixture, "in_flight=0");
}

static int leave_files_unread(const struct fixture *fixture)
{
	int socket = fixture_client(fixture);

	await_status(fixture, "in_flight=0");
	send_register(socket, "unread u32 a");
	await_status(fixture, "in_flight=1");
	return socket;
}

/* Shuts it down: its leases are released, but the connection still counts. */
static int leave_files_unread_and_end(const struct fixture *fixture)
{
	int socket = leave_files_unread(fixture);

	ck_assert_int_eq(shutdown(socket, SHUT_RDWR), 0);
	await_status(fixture, "leases=0");
	expect_status(fixture, "connections=1 in_flight=1");
	return socket;
}

DAEMON_TEST(shut_down_connection_counts_until_files_are_read)
{
	_cleanup_(fd_closep) int socket = leave_files_unread_and_end(fixture);

	expect_kind_with_fds(socket, KIND_REGISTERED, 1);
	await_status(fixture, "connections=0");
}

/* A request behind unread files is not read, but one behind an unread page is. */
DAEMON_TEST(rejected_connection_counts_until_it_is_closed)
{
	int socket = raw_connect(fixture->socket);

	ck_assert(actor_greet(socket));
	await_status(fixture, "in_flight=1");
	ck_assert_int_eq(transport_send(socket, "x", 1, NULL, 0, 0), 0);
	let_others_have_their_turn(fixture);
	await_status(fixture, "connections=1 in_flight=1");
	close(socket);
	await_status(fixture, "connections=0");
}

DAEMON_TEST(closed_connection_leaves_nothing_in_flight)
{
	close(leave_files_unread(fixture));
	await_status(fixture, "connections=0");
	expect_status(fixture, "in_flight=0");
}

DAEMON_TEST(client_that_leaves_files_unread_is_disconnected, .options = { "--client-timeout=1" })
{
	_cleanup_(fd_closep) int socket = leave_files_unread(fixture);

	send_register(socket, "another u32 a");
	ck_assert(eventually(is_disconnected(socket)));
	expect_status(fixture, "connections=1 in_flight=1");
}

/* Then the client's end lies in the daemon's, and nobody else has it. Since Linux 6.16 the kernel refuses to send it. */
static void send_itself_and_end(int socket)
{
	(void)transport_send(socket, "x", 1, &socket, 1, 0);
	close(socket);
}

DAEMON_TEST(connection_that_is_sent_over_itself_ends)
{
	int socket = raw_connect(fixture->socket);

	ck_assert(actor_greet(socket));
	await_status(fixture, "in_flight=1");
	send_itself_and_end(socket);
	await_status(fixture, "connections=0 in_flight=0");
}

DAEMON_TEST(connection_that_is_sent_over_itself_behind_unread_files_ends, .options = { "--client-timeout=1" })
{
	int socket = leave_files_unread(fixture);

	send_register(socket, "another u32 a");
	send_itself_and_end(socket);
	await_status(fixture, "connections=0 in_flight=0");
}

DAEMON_TEST(ended_connection_keeps_its_place_among_the_maximum, .policy = "[Daemon]\nDefaultMaxConnections=1\n")
{
	int socket = leave_files_unread_and_end(fixture), another = raw_connect(fixture->socket);

	expect_cut(another, REFUSAL_TOO_MANY_CONNECTIONS);
	close(another);
	close(socket);
	await_status(fixture, "connections=0");
	close(fixture_client(fixture));
}

/* One connection is used, and one has ended and keeps its place. */
PAIR_TEST(next_daemon_counts_what_is_unread, "--guard=prefer")
{
	int ended = leave_files_unread_and_end(fixture), used = fixture_client(fixture);

	send_register(used, "unread u32 a");
	await_status(fixture, "leases=1");
	pair_restart_daemon(pair, SIGKILL);
	await_status(fixture, "in_flight=2 connections=2 leases=1");
	expect_kind_with_fds(used, KIND_REGISTERED, 1);
	await_status(fixture, "in_flight=1");
	expect_account(used, "leases=1");
	close(ended);
	await_status(fixture, "connections=1");
	close(used);
}
