/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Many connections, and fds that run out: the daemon's, and the machine's. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

static uint64_t wake_ups(pid_t pid)
{
	return proc_status(pid, "voluntary_ctxt_switches:", 10) + proc_status(pid, "nonvoluntary_ctxt_switches:", 10);
}

static bool has_fallen_asleep(pid_t pid)
{
	uint64_t before = wake_ups(pid);

	usleep(100000);
	return wake_ups(pid) == before;
}

static void expect_to_sleep(pid_t pid, unsigned seconds)
{
	uint64_t before;

	ck_assert_msg(eventually(has_fallen_asleep(pid)), "the daemon does not come to rest");
	before = wake_ups(pid);
	sleep(seconds);
	ck_assert_uint_eq(wake_ups(pid) - before, 0);
}

/* In hundredths of a second, mostly. */
static unsigned long cpu_time(pid_t pid)
{
	char path[64], line[512];
	unsigned long user = 0, system = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
	fclose(file);
	ck_assert_int_eq(
		sscanf(strrchr(line, ')'), ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &system), 2);
	return user + system;
}

static struct rlimit fd_limit(void)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit;
}

static void set_fd_limit(rlim_t number)
{
	const struct rlimit limit = { .rlim_cur = number, .rlim_max = fd_limit().rlim_max };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* As many connections as were asked for, or as this machine allows one process. */
static unsigned most_connections(unsigned wanted)
{
	enum { MARGIN = 64 };
	rlim_t most = fd_limit().rlim_max;

	if (most >= wanted + MARGIN)
		return wanted;
	printf("not possible here, where a process may have %" PRIu64 " fds: more than %" PRIu64 " connections\n",
	       (uint64_t)most, (uint64_t)most - MARGIN);
	return (unsigned)most - MARGIN;
}

TEST(idle_connection_costs_a_kilobyte_and_no_wake_up)
{
	static int sockets[10000];
	unsigned n = most_connections(is_emulated() ? 1000 : ARRAY_SIZE(sockets));
	struct fixture fixture;
	uint64_t before, grown;
	int first;

	/* What most get: the daemon is to raise it for itself. */
	set_fd_limit(MIN(fd_limit().rlim_max, (rlim_t)1024));
	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=infinity\n", NULL);
	set_fd_limit(fd_limit().rlim_max);
	first = raw_hello(fixture.socket, 0, NULL, NULL);
	before = proc_status(fixture.pid, "VmRSS:", 10);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = raw_hello(fixture.socket, 0, NULL, NULL);
	grown = proc_status(fixture.pid, "VmRSS:", 10) - before;
	ck_assert_msg(grown <= n || has_sanitizer(), "%u connections cost %" PRIu64 " KiB", n, grown);
	ck_assert_uint_eq(status_number(&fixture, "connections"), n + 1);
	expect_to_sleep(fixture.pid, 2);
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
	int socket, stream = -1;

	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "lingers", NULL, &stream), 0);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "lingering") == 1));
	holder_end(&holder);
	ck_assert(eventually(status_number(fixture, "streams") == 0));
	expect_to_sleep(fixture->pid, 2);
}

DAEMON_TEST(clients_without_an_fd_wait_and_stay_connected, .options = { "--user=root", "--guard=off" })
{
	/* All that clients may have: one is the stream's, one the page's. */
	enum { FDS = 128, RESERVE = FDS / 4, WAITING = 120, CONNECTIONS = FDS - RESERVE - 2 };
	const struct rlimit few = { .rlim_cur = FDS, .rlim_max = FDS };
	int sockets[WAITING], old, without_stream;
	unsigned long before;

	/* With the guard one stream would do for all. */
	old = fixture_client(fixture);
	without_stream = fixture_client(fixture);
	expect_granted(old, "before");
	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < WAITING; i++) {
		sockets[i] = raw_connect(fixture->socket);
		raw_say_hello(sockets[i]);
	}
	ck_assert(eventually(status_number(fixture, "connections") == CONNECTIONS));
	/* Pages that nobody takes would make the whole tenant wait. */
	for (size_t i = 0; i < CONNECTIONS - 2; i++)
		expect_kind(sockets[i], KIND_WELCOME);

	before = cpu_time(fixture->pid);
	sleep(1);
	ck_assert_msg(cpu_time(fixture->pid) - before < (unsigned long)sysconf(_SC_CLK_TCK) / 5,
		      "%lu ticks in a second in which nothing could be done", cpu_time(fixture->pid) - before);
	/* Who is there goes on; who would need an fd for it is told. */
	expect_granted(old, "meanwhile");
	expect_refusal(without_stream, "meanwhile", REFUSAL_TROUBLE, "try again later");
	ck_assert_uint_eq(raw_query(without_stream).events, 2);

	/* Whenever one leaves, the next is let in, in the order in which they came. */
	for (size_t i = 0; i < WAITING; i++) {
		if (i >= CONNECTIONS - 2)
			expect_kind(sockets[i], KIND_WELCOME);
		close(sockets[i]);
	}
	expect_granted(without_stream, "later");
	close(without_stream);
	close(old);
}

/* Else each of them would be refused for its tenant, which has its one connection, and counted. */
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

/* Not by its own account: then it would not even ask for what there is no fd for. */
DAEMON_TEST(daemon_out_of_fds_refuses_and_lives, .options = { "--user=root", "--guard=off" })
{
	const struct rlimit none = { .rlim_cur = 6, .rlim_max = fd_limit().rlim_max }, all = fd_limit();
	int first = raw_connect(fixture->socket);
	_cleanup_(fd_closep) int second = raw_connect(fixture->socket);

	ck_assert(eventually(status_number(fixture, "connections") == 2));
	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &none, NULL), 0);
	raw_say_hello(first);
	expect_cut(first, REFUSAL_TROUBLE);
	close(first);
	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &all, NULL), 0);

	/* Of the page that was made nothing is left that would be in the way of the next. */
	raw_say_hello(second);
	expect_kind(second, KIND_WELCOME);
	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &none, NULL), 0);
	expect_refusal(second, "without_a_stream u32 a", REFUSAL_TROUBLE, "Too many open files");
	ck_assert_uint_eq(raw_query(second).events, 0);
	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &all, NULL), 0);
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
	ck_assert_uint_eq(raw_query(without_stream).leases, 0);
	/* Who is there already goes on, but where the kernel's files have to be read for each new event. */
	if (fixture->backend == BACKEND_STATUS_PAGE) {
		expect_refusal(old, "meanwhile u32 a", REFUSAL_TROUBLE, strerror(ENFILE));
	} else {
		expect_granted(old, "meanwhile u32 a");
		ck_assert_uint_eq(raw_query(old).leases, 2);
	}

	shortage_end(&shortage);
	expect_kind(late, KIND_WELCOME);
	expect_granted(late, "later u32 a");
	expect_granted(without_stream, "meanwhile u32 a");
}

DAEMON_TEST(admin_connects_when_clients_have_all_fds, .options = { "--user=root" })
{
	enum { FDS = 160, CLIENTS = 160 };
	const struct rlimit few = { .rlim_cur = FDS, .rlim_max = FDS };
	int sockets[CLIENTS];
	uint64_t connections;

	ck_assert_int_eq(prlimit(fixture->pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < CLIENTS; i++) {
		sockets[i] = raw_connect(fixture->socket);
		raw_say_hello(sockets[i]);
	}
	/* All that clients may have, but for their page, and not one more. */
	ck_assert(eventually(status_number(fixture, "connections") == FDS - FDS / 4 - 1));
	usleep(300000);
	connections = status_number(fixture, "connections");
	ck_assert_uint_eq(connections, FDS - FDS / 4 - 1);
	for (size_t i = 0; i < CLIENTS; i++)
		close(sockets[i]);
}
