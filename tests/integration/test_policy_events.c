/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that the policy declares exist before any program; those that it keeps exist after their programs. */

#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/pair.h"
#include "tests/integration/policy.h"

#define ONE   "[Event declared_one]\nFields=u32 x\n"
#define TWO   "[Event declared_two]\nFields=u32 x; char[8] name\n"
#define THREE "[Event declared_three]\n"

/* In the daemon, and in a kernel that has events. */
static bool is_there(const struct fixture *of, const char *event)
{
	bool held = event_number(of, event, "tenants") > 0;

	return held && (of->backend == BACKEND_EMBEDDED || kernel_has(event));
}

/* Not from the start: the keeper's reserve for the next event may come a little later than the declared events. */
static void declare(const struct fixture *fixture, const char *events)
{
	change_policy(fixture, events);
	ck_assert(eventually(is_there(fixture, "declared_one")));
}

/* So that the test ends with nothing, as it began. */
static void declare_nothing(const struct fixture *fixture)
{
	change_policy(fixture, "");
}

DAEMON_TEST(tracer_attaches_before_the_program_starts)
{
	struct member member;

	declare(fixture, ONE TWO);
	ck_assert(eventually(is_there(fixture, "declared_two")));
	expect_status(fixture, "lingering=0");
	ck_assert_uint_eq(trace(fixture, "declared_one", true), 1);
	member = member_new(fixture, "declared_one u32 x");
	ck_assert(member_is_on(&member, 0));
	member_emit(&member, 0, 7);
	expect_traced(fixture, &member, 0);
	ck_assert_uint_eq(event_number(fixture, "declared_one", "tenants"), 2);
	member_free(&member);
	ck_assert(eventually(event_number(fixture, "declared_one", "tenants") == 1));
	declare_nothing(fixture);
}

DAEMON_TEST(reload_changes_only_changed_events)
{
	ck_assert(!is_there(fixture, "declared_one"));
	declare(fixture, ONE TWO);
	ck_assert(eventually(is_there(fixture, "declared_two")));
	change_policy(fixture, TWO THREE);
	ck_assert(eventually(is_there(fixture, "declared_three") && !is_there(fixture, "declared_one")));
	ck_assert(is_there(fixture, "declared_two"));
	declare_nothing(fixture);
}

DAEMON_TEST(declared_event_is_listed_and_refused_to_others)
{
	char output[4096];
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	declare(fixture, ONE "Tenants=/nobody/here\n");
	ck_assert_int_eq(run_command(fixture, output, sizeof(output),
				     (const char *const[]){ built("userevctl"), "tenants", NULL }),
			 0);
	ck_assert_msg(strstr(output, "policy"), "%s", output);
	expect_refusal(socket, "declared_one u32 x", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the event 'declared_one'");
	declare_nothing(fixture);
}

DAEMON_TEST(declared_name_taken_with_other_fields_is_logged)
{
	struct member member = member_new(fixture, "declared_one u64 y");

	change_policy(fixture, ONE TWO);
	ck_assert(eventually(is_there(fixture, "declared_two")));
	ck_assert(
		log_has(fixture, "policy.conf:1: [Event declared_one] can't be had: the name 'declared_one' is taken"));
	member_free(&member);
	ck_assert(eventually(!is_there(fixture, "declared_one")));
	/* Once the name is free, the next reload registers it. */
	declare(fixture, ONE TWO);
	declare_nothing(fixture);
}

PAIR_TEST(declared_event_outlives_daemon_and_keeper, "--guard=prefer")
{
	struct member member;

	declare(fixture, ONE TWO);
	ck_assert_uint_eq(trace(fixture, "declared_one", true), 1);
	pair_end_daemon(pair, SIGKILL);
	ck_assert(kernel_has("declared_two"));
	pair_start_daemon(pair);
	pair_wait(pair);
	ck_assert(is_there(fixture, "declared_one"));
	ck_assert(is_there(fixture, "declared_two"));
	expect_status(fixture, "streams=1");
	pair_end_keeper(pair, SIGKILL);
	ck_assert(kernel_has("declared_two"));
	pair_start_keeper(pair);
	member = member_new(fixture, "declared_one u32 x");
	ck_assert(eventually(member_is_on(&member, 0)));
	member_emit(&member, 0, 7);
	expect_traced(fixture, &member, 0);
	member_free(&member);
	/* The next daemon reads a policy with another event. */
	fixture_write_policy(fixture, TWO);
	pair_restart_daemon(pair, SIGTERM);
	await_status(fixture, "events=1");
	ck_assert(is_there(fixture, "declared_two"));
	declare_nothing(fixture);
}

/* Longer than an event exists that is not kept. */
enum { GONE_US = 300000 };

#define KEPT_ALONE "[/**]\nMaxEvents=1\nKeepFor=1h\n"

DAEMON_TEST(kept_event_waits_for_its_program, .policy = KEPT_ALONE)
{
	struct member member = member_new(fixture, "declared_one u32 x");
	struct answer before = member.answer;
	_cleanup_(fd_closep) int socket = -1;

	member_free(&member);
	await_status(fixture, "connections=0");
	usleep(GONE_US);
	ck_assert(is_there(fixture, "declared_one"));
	member = member_new(fixture, "declared_one u32 x");
	ck_assert_uint_eq(member.answer.bit, before.bit);
	ck_assert_uint_eq(trace(fixture, "declared_one", true), 1);
	member_emit(&member, 0, 7);
	expect_traced(fixture, &member, 0);
	trace(fixture, "declared_one", false);
	member_free(&member);
	await_status(fixture, "connections=0");
	/* A kept event makes room for a new one. */
	socket = fixture_client(fixture);
	expect_refusal(socket, "declared_two u32 x", REFUSAL_QUOTA_EXCEEDED, "released now: try again");
	await_status(fixture, "charges=0");
	declare_nothing(fixture);
	expect_granted(socket, "declared_two u32 x");
}

PAIR_TEST(kept_event_is_kept_by_the_next_daemon, "--guard=prefer")
{
	struct member member;

	change_policy(fixture, KEPT_ALONE);
	member = member_new(fixture, "declared_one u32 x");
	member_free(&member);
	await_status(fixture, "connections=0");
	pair_restart_daemon(pair, SIGKILL);
	pair_wait(pair);
	usleep(GONE_US);
	ck_assert(is_there(fixture, "declared_one"));
	fixture_write_policy(fixture, "");
	pair_restart_daemon(pair, SIGTERM);
	await_status(fixture, "events=0");
}
