/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Many connections, and fds that run out: the daemon's, and the machine's. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/integration/actor.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

TEST(idle_connection_costs_a_kilobyte_and_no_wake_up)
{
	static int sockets[10000];
	struct fixture fixture;
	uint64_t before, grown;
	unsigned n;
	int first;

	/* The usual soft limit, which the daemon raises for itself. */
	limit_fds_of(0, 1024);
	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=infinity\n", NULL);
	n = most_connections(is_emulated() ? 1000 : ARRAY_SIZE(sockets));
	first = fixture_client(&fixture);
	before = proc_status(fixture.pid, "VmRSS:", 10);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = fixture_client(&fixture);
	grown = proc_status(fixture.pid, "VmRSS:", 10) - before;
	ck_assert_msg(grown <= n || has_sanitizer(), "%u connections cost %" PRIu64 " KiB", n, grown);
	expect_status(&fixture, "connections=%u", n + 1);
	expect_wake_ups(&fixture, 0);
	/* The first and the last are served as if they were alone. */
	expect_granted(first, "first");
	expect_granted(sockets[n - 1], "last");
	for (unsigned i = 0; i < n; i++)
		close(sockets[i]);
	close(first);
	fixture_stop(&fixture);
}

DAEMON_TEST(daemon_sleeps_after_an_event_lingered)
{
	struct holder holder;

	leave_event(&holder, fixture_client(fixture), "lingers");
	await_status(fixture, "lingering=1");
	holder_end(&holder);
	await_status(fixture, "streams=0");
	expect_wake_ups(fixture, 0);
}

DAEMON_TEST(clients_without_an_fd_wait_and_stay_connected, .options = { "--user=root", "--guard=off" })
{
	/* The fds that clients may have, without those of the stream and the page. */
	enum { FDS = 128, RESERVE = FDS / 4, WAITING = 120, CONNECTIONS = FDS - RESERVE - 2 };
	int sockets[WAITING];
	double before;
	_cleanup_(fd_closep) int old = fixture_client(fixture);
	_cleanup_(fd_closep) int without_stream = fixture_client(fixture);

	/* With a guard both clients would have one stream. */
	expect_granted(old, "before");
	limit_fds_of(fixture->pid, FDS);
	for (size_t i = 0; i < WAITING; i++) {
		sockets[i] = raw_connect(fixture->socket);
		raw_say_hello(sockets[i]);
	}
	await_status(fixture, "connections=%u", CONNECTIONS);
	/* With unread pages the whole tenant would have to wait. */
	for (size_t i = 0; i < CONNECTIONS - 2; i++)
		expect_kind(sockets[i], KIND_WELCOME);

	before = cpu_seconds(fixture->pid);
	sleep(1);
	ck_assert_double_lt(cpu_seconds(fixture->pid) - before, 0.2);
	/* A client that needs no fd is served; one that needs an fd for its stream is refused. */
	expect_granted(old, "meanwhile");
	expect_refusal(without_stream, "meanwhile", REFUSAL_TROUBLE, "try again later");
	expect_account(without_stream, "events=2");

	/* When one disconnects, another is accepted, in the order in which they connected. */
	for (size_t i = 0; i < WAITING; i++) {
		if (i >= CONNECTIONS - 2)
			expect_kind(sockets[i], KIND_WELCOME);
		close(sockets[i]);
	}
	expect_granted(without_stream, "later");
}

/* Otherwise each of them would be refused, since its tenant has its one connection, and counted. */
DAEMON_TEST(connection_that_has_hung_up_is_not_looked_at, .policy = "[Daemon]\nDefaultMaxConnections=1\n")
{
	int last;
	_cleanup_(fd_closep) int held = fixture_client(fixture);

	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	for (unsigned i = 0; i < 10; i++)
		close(raw_connect(fixture->socket));
	last = raw_connect(fixture->socket);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	expect_cut(last, REFUSAL_TOO_MANY_CONNECTIONS);
	ck_assert_uint_eq(refusal_count(fixture, "too-many-connections"), 1);
	close(last);
}

/* The daemon doesn't know of the limit; otherwise it would not even try. */
DAEMON_TEST(daemon_out_of_fds_refuses_and_lives, .options = { "--user=root", "--guard=off" })
{
	int first = raw_connect(fixture->socket);
	_cleanup_(fd_closep) int second = raw_connect(fixture->socket);

	await_status(fixture, "connections=2");
	limit_fds_of(fixture->pid, 6);
	raw_say_hello(first);
	expect_cut(first, REFUSAL_TROUBLE);
	close(first);
	limit_fds_of(fixture->pid, RLIM_INFINITY);

	/* The page that the first client didn't get doesn't stand in the way. */
	raw_say_hello(second);
	expect_kind(second, KIND_WELCOME);
	limit_fds_of(fixture->pid, 6);
	expect_refusal(second, "without_a_stream u32 a", REFUSAL_TROUBLE, "Too many open files");
	expect_account(second, "events=0");
	limit_fds_of(fixture->pid, RLIM_INFINITY);
	expect_granted(second, "without_a_stream u32 a");
}

DAEMON_TEST(machine_out_of_files_refuses_or_waits, .options = { "--guard=off" },
	    .needs_guest = "a machine without a free file")
{
	struct shortage shortage;
	_cleanup_(fd_closep) int old = fixture_client(fixture);
	_cleanup_(fd_closep) int without_stream = fixture_client(fixture);
	_cleanup_(fd_closep) int late = -1;

	expect_granted(old, "before u32 a");

	shortage_begin(&shortage);
	late = raw_connect(fixture->socket);
	raw_say_hello(late);
	ck_assert(eventually(log_has(fixture, "can't accept on")));
	ck_assert(log_has(fixture, strerror(ENFILE)));
	expect_refusal(without_stream, "meanwhile u32 a", REFUSAL_TROUBLE, strerror(ENFILE));
	expect_account(without_stream, "leases=0");
	/* A client with a stream goes on, unless the kernel's files have to be read for each new event. */
	if (fixture->backend == BACKEND_STATUS_PAGE) {
		expect_refusal(old, "meanwhile u32 a", REFUSAL_TROUBLE, strerror(ENFILE));
	} else {
		expect_granted(old, "meanwhile u32 a");
		expect_account(old, "leases=2");
	}

	shortage_end(&shortage);
	expect_kind(late, KIND_WELCOME);
	expect_granted(late, "later u32 a");
	expect_granted(without_stream, "meanwhile u32 a");
}

DAEMON_TEST(admin_connects_when_clients_have_all_fds, .options = { "--user=root" })
{
	enum { FDS = 160, CLIENTS = 160 };
	int sockets[CLIENTS];

	limit_fds_of(fixture->pid, FDS);
	for (size_t i = 0; i < CLIENTS; i++) {
		sockets[i] = raw_connect(fixture->socket);
		raw_say_hello(sockets[i]);
	}
	/* The fds that clients may have, without that of their page. */
	await_status(fixture, "connections=%u", FDS - FDS / 4 - 1);
	usleep(300000);
	expect_status(fixture, "connections=%u", FDS - FDS / 4 - 1);
	for (size_t i = 0; i < CLIENTS; i++)
		close(sockets[i]);
}
