/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The daemon or the keeper ends, in any way, and is started again: clients keep their connections, pages, indexes and data files,
 * and no record is lost.
 */

#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/pair.h"

/* The answer to the last request, possibly from another daemon than the one that read it. */
static void expect_registered(int socket, size_t fds)
{
	static struct batch batch;

	raw_receive_answer(socket, &batch.reply);
	batch_read(&batch);
	batch_expect(&batch, 0);
	ck_assert_uint_eq(batch.reply.fds.count, fds);
	raw_reply_deinit(&batch.reply);
}

/* Waits for the end of the connection, and leaves the socket open. */
static void expect_disconnected(const struct member *member)
{
	struct raw_reply reply;

	raw_receive(member->socket, &reply);
	ck_assert(reply.size == 0 || reply.size == -ECONNRESET);
}

/* --- the daemon --- */

PAIR_TEST(client_keeps_everything_when_the_daemon_is_killed, "--guard=prefer")
{
	_cleanup_(member_free) struct member member = member_new(fixture, "restart_one u32 x");

	trace(fixture, "restart_one", true);
	ck_assert(member_is_on(&member, 0));
	member_emit(&member, 0, 1);
	pair_end_daemon(pair, SIGKILL);
	member_emit(&member, 0, 2);
	/* Bits change without the daemon. */
	ck_assert(tracer_switch(&fixture->tracer, "restart_one", false));
	ck_assert(!member_is_on(&member, 0));
	ck_assert(tracer_switch(&fixture->tracer, "restart_one", true));
	ck_assert(member_is_on(&member, 0));
	member_emit(&member, 0, 3);
	pair_start_daemon(pair);
	expect_account(member.socket, "leases=1");
	member_emit(&member, 0, 4);
	member_register(&member, "restart_two u32 x");
	ck_assert_uint_eq(member.event[1].answer.stream, member.answer.stream);
	ck_assert_uint_ne(member.event[1].answer.bit, member.answer.bit);
	trace(fixture, "restart_two", true);
	ck_assert(member_is_on(&member, 1));
	member_emit(&member, 1, 5);
	expect_status(fixture, "charges=2 streams=1");
	expect_traced(fixture, &member, 0);
	expect_traced(fixture, &member, 1);
}

PAIR_TEST(request_without_a_daemon_is_answered_by_the_next, "--guard=prefer")
{
	_cleanup_(member_free) struct member member = member_new(fixture, NULL);

	pair_end_daemon(pair, SIGKILL);
	send_register(member.socket, "waits u32 x");
	pair_start_daemon(pair);
	expect_registered(member.socket, 1);
}

PAIR_TEST(clients_do_not_notice_how_the_daemon_ends, "--guard=prefer")
{
	enum { CLIENTS = 12, DIFFERENT = 4 };
	static const int signals[] = { SIGTERM, SIGKILL, SIGABRT, SIGSEGV, SIGINT };
	struct member members[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++)
		members[i] = member_new(fixture, *numbered("ways_%u u32 x", i % DIFFERENT, 1));
	for (size_t way = 0; way < ARRAY_SIZE(signals); way++) {
		pair_restart_daemon(pair, signals[way]);
		expect_status(fixture, "connections=%u events=%u", CLIENTS, DIFFERENT);
		for (unsigned i = 0; i < CLIENTS; i++)
			expect_account(members[i].socket, "leases=1");
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		member_free(&members[i]);
}

PAIR_TEST(client_that_left_without_a_daemon_is_refunded, "--guard=prefer")
{
	struct member stays = member_new(fixture, "leave_a u32 x"), leaves = member_new(fixture, "leave_b u32 x");

	pair_end_daemon(pair, SIGKILL);
	member_free(&leaves);
	pair_start_daemon(pair);
	expect_account(stays.socket, "leases=1");
	/* The daemon may answer STATUS before it has looked at the other connection. */
	await_status(fixture, "connections=1");
	member_free(&stays);
	await_status(fixture, "charges=0 tenants=0");
}

/* --- versions --- */

static void replace_daemon(struct pair *pair, const char *program)
{
	pair->program = program;
	pair_restart_daemon(pair, SIGKILL);
	pair_wait(pair);
}

/* The daemon begins with nothing, and logs why: clients connect again; data file, page and index go on as they were. */
PAIR_TEST(ledger_of_another_version_is_discarded, "--guard=prefer")
{
	static const char words[] = "damaged, or of another version";
	struct member member, again;

	replace_daemon(pair, "tests/userevd-next");
	member = member_new(fixture, "downgrade_a u32 x");
	trace(fixture, "downgrade_a", true);
	member_emit(&member, 0, 1);
	ck_assert_uint_eq(log_count(fixture, words), 1);
	replace_daemon(pair, "userevd");
	ck_assert_uint_eq(log_count(fixture, words), 2);
	expect_disconnected(&member);
	expect_status(fixture, "connections=0 charges=0");
	ck_assert(member_is_on(&member, 0));
	member_emit(&member, 0, 2);
	ck_assert(tracer_switch(&fixture->tracer, "downgrade_a", false));
	ck_assert(eventually(!member_is_on(&member, 0)));
	ck_assert(tracer_switch(&fixture->tracer, "downgrade_a", true));
	ck_assert(eventually(member_is_on(&member, 0)));
	member_emit(&member, 0, 3);
	again = member_new(fixture, "downgrade_a u32 x");
	expect_account(again.socket, "leases=1");
	ck_assert(eventually(member_is_on(&again, 0)));
	/* The records of both are in one trace. */
	ck_assert_int_eq(write_number(&again, 4), 8);
	member.event[0].written++;
	member.event[0].sum += 4;
	member_emit(&member, 0, 5);
	expect_traced(fixture, &member, 0);
	member_free(&member);
	member_free(&again);
}

/* --- the keeper --- */

PAIR_TEST(next_keeper_makes_all_bits_right, "--guard=off")
{
	_cleanup_(member_free) struct member member = member_new(fixture, "keep_on u32 x");

	member_register(&member, "keep_off u32 x");
	member_register(&member, "keep_changing u32 x");
	trace(fixture, "keep_*", true);
	trace(fixture, "keep_off", false);
	member_emit(&member, 0, 1);
	pair_end_keeper(pair, SIGKILL);
	/* The bits stay as they are, but an event that is on takes records. */
	ck_assert(tracer_switch(&fixture->tracer, "keep_off", true));
	ck_assert(tracer_switch(&fixture->tracer, "keep_changing", false));
	member_emit(&member, 0, 2);
	pair_start_keeper(pair);
	ck_assert(eventually(member_is_on(&member, 1)));
	ck_assert(eventually(!member_is_on(&member, 2)));
	ck_assert(member_is_on(&member, 0));
	member_emit(&member, 0, 3);
	member_emit(&member, 1, 4);
	/* And new events are registered. */
	member_register(&member, "keep_more u32 x");
	trace(fixture, "keep_more", true);
	ck_assert(eventually(member_is_on(&member, 3)));
	member_emit(&member, 3, 5);
	for (unsigned i = 0; i < member.n; i++)
		expect_traced(fixture, &member, i);
	expect_account(member.socket, "leases=%u", member.n);
}

PAIR_TEST(keeper_and_daemon_may_end_in_turns, "--guard=off")
{
	_cleanup_(member_free) struct member member = member_new(fixture, "turns_a u32 x");

	for (unsigned i = 0; i < 3; i++) {
		pair_end_keeper(pair, SIGKILL);
		pair_start_keeper(pair);
		pair_wait(pair);
		expect_account(member.socket, "leases=1");
		/* The new keeper asks the kernel for changes after it got everything. */
		ck_assert(eventually(log_count(fixture, "a new keeper has taken over") == i + 1));
		trace(fixture, "turns_a", i % 2 == 0);
		ck_assert(eventually(member_is_on(&member, 0) == (i % 2 == 0)));
		pair_restart_daemon(pair, SIGKILL);
		expect_account(member.socket, "leases=1");
	}
	member_register(&member, "turns_b u32 x");
}

PAIR_TEST(keeper_without_a_guard_gives_streams_of_their_own, "--guard=prefer")
{
	struct member one, two;
	_cleanup_(member_free) struct member before = member_new(fixture, "guard_before u32 x");

	pair_end_keeper(pair, SIGKILL);
	pair->guard = "--guard=off";
	pair_start_keeper(pair);
	ck_assert(eventually(log_has(fixture, "a new keeper has taken over")));
	ck_assert(!fixture->guarded || log_has(fixture, "the new keeper has no guard"));
	one = member_new(fixture, "guard_after u32 x");
	two = member_new(fixture, "guard_after u32 x");
	ck_assert_uint_ne(one.answer.stream, two.answer.stream);
	member_free(&one);
	member_free(&two);
}

PAIR_TEST(request_lost_with_a_keeper_is_sent_to_the_next, "--guard=off")
{
	_cleanup_(member_free) struct member member = member_new(fixture, "under_way_a u32 x");

	pair_end_keeper(pair, SIGKILL);
	send_register(member.socket, "under_way_b u32 x");
	usleep(50000);
	pair_start_keeper(pair);
	expect_registered(member.socket, 0);
	expect_account(member.socket, "leases=2");
}

/* --- both --- */

PAIR_TEST(clients_connect_again_after_both_have_ended, "--guard=off")
{
	struct member again;
	_cleanup_(member_free) struct member member = member_new(fixture, "both_a u32 x");

	trace(fixture, "both_a", true);
	trace(fixture, "both_a", false);
	pair_end_daemon(pair, SIGKILL);
	pair_end_keeper(pair, SIGKILL);
	expect_disconnected(&member);
	/* The client's data file goes on working. */
	ck_assert(tracer_switch(&fixture->tracer, "both_a", true));
	member_emit(&member, 0, 1);
	pair_start_keeper(pair);
	pair_start_daemon(pair);
	again = member_new(fixture, "both_a u32 x");
	ck_assert(eventually(member_is_on(&again, 0)));
	ck_assert_int_eq(write_number(&again, 2), 8);
	member.event[0].written++;
	member.event[0].sum += 2;
	expect_traced(fixture, &member, 0);
	member_free(&again);
}

/* --- at every moment --- */

/* A program in a process of its own, which checks everything that it is promised. */
static pid_t start_life(const struct pair *pair)
{
	const char *program = built("tests/restart_load");
	pid_t pid = start_process();

	if (pid > 0)
		return pid;
	execl(program, program, "life", pair->fixture.socket, NULL);
	_exit(127);
}

/* From now on the daemon stops at each system call. */
static void seize(pid_t daemon)
{
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, daemon, NULL, PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, daemon, NULL, NULL), 0);
}

/* Lets the daemon go on until it has stopped so many times, twice at each system call. False: the life has ended before. */
static bool run_until(pid_t daemon, unsigned stops, pid_t life, int *ret_status)
{
	int status;

	for (;;) {
		pid_t one = waitpid(daemon, &status, __WALL | WNOHANG);

		ck_assert_int_ge(one, 0);
		if (one == 0 && waitpid(life, ret_status, WNOHANG) == life)
			return false;
		if (one == 0) {
			usleep(200);
			continue;
		}
		ck_assert(WIFSTOPPED(status));
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && --stops == 0)
			return true;
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, daemon, NULL, NULL), 0);
	}
}

/* Every moment, or one of so many (RESTART_STEP). */
static unsigned moments_apart(void)
{
	const char *step = getenv("RESTART_STEP");

	return step ? (unsigned)atoi(step) : 17;
}

PAIR_TEST(daemon_may_be_killed_at_any_system_call, "--guard=prefer")
{
	unsigned moments = 0;
	bool goes_on = true;

	pair->at_once = true;
	for (unsigned at = 1; goes_on; at += moments_apart(), moments++) {
		pid_t life;
		int status;

		seize(pair->daemon);
		life = start_life(pair);
		goes_on = run_until(pair->daemon, at, life, &status);
		pair_restart_daemon(pair, SIGKILL);
		if (goes_on)
			ck_assert_int_eq(waitpid(life, &status, 0), life);
		ck_assert_msg(status == 0, "killed at stop %u: its life ended with %#x", at, (unsigned)status);
		await_status(fixture, "charges=0 connections=0");
	}
	printf("killed at %u moments\n", moments);
}

/* --- many clients --- */

TEST(daemon_with_500_clients_is_restarted)
{
	enum { TENANTS = 100, MANY = 5 * TENANTS, EVENTS = 10 };
	static struct actor actors[MANY];
	struct pair pair;
	uint64_t begun;
	char name[32];

	if (!need_cgroups("a hundred tenants") || !pair_start(&pair, "--guard=prefer"))
		return;
	/* Two fds of each. */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 4 * MANY, 4 * MANY }), 0);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "tenant%u", i % TENANTS);
		actors[i] = actor_in(&pair.fixture, make_cgroup(name), 0);
		batch_put(numbered("broker_%u u32 x", i % TENANTS * EVENTS, EVENTS), EVENTS);
		ck_assert_int_eq(raw_send(actors[i].socket), 0);
		expect_registered(actors[i].socket, 1);
	}
	pair_end_daemon(&pair, SIGKILL);
	begun = clock_us();
	pair_start_daemon(&pair);
	expect_status(&pair.fixture, "connections=%u tenants=%u leases=%u", MANY, TENANTS, MANY * EVENTS);
	printf("a daemon is back after %u ms, with %u connections and %u events of %u tenants\n",
	       (unsigned)(clock_us() - begun) / 1000, MANY, TENANTS * EVENTS, TENANTS);
	for (unsigned i = 0; i < MANY; i++)
		actor_end(&actors[i]);
	await_status(&pair.fixture, "charges=0");
	pair_stop(&pair);
}

int main(void)
{
	return run_tests_in_cgroups();
}
