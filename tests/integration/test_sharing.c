/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Clients and their streams. With a guard, clients of one tenant and one user share a stream. Without a guard each client has its own,
 * since it could register events on it itself, which the daemon notices.
 */

#include "tests/integration/actor.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/speaker.h"

enum { NOBODY = 65534 };

DAEMON_TEST(clients_of_one_user_share_a_guarded_stream)
{
	struct seen seen;
	struct member one = member_new(fixture, "common u32 number");
	_cleanup_(member_free) struct member another = member_new(fixture, "common u32 number");

	expect_status(fixture, "charges=1 streams=%u", shares_streams(fixture) ? 1 : 2);
	ck_assert((one.answer.stream == another.answer.stream) == shares_streams(fixture));
	ck_assert_uint_eq(one.answer.bit, another.answer.bit);

	/* Each has a copy of its own, and both work. */
	ck_assert(one.stream >= 0 && another.stream >= 0);
	ck_assert_uint_eq(trace(fixture, "common", true), 1);
	ck_assert_int_eq(write_number(&one, 1), 8);
	ck_assert_int_eq(write_number(&another, 10), 8);
	member_free(&one);
	await_status(fixture, "connections=1");
	ck_assert_int_eq(write_number(&another, 100), 8);
	see(fixture, "common", &seen);
	ck_assert_uint_eq(seen.records, 3);
	ck_assert_uint_eq(seen.sum, 111);
	trace(fixture, "common", false);
}

DAEMON_TEST(users_of_one_tenant_never_share_a_stream, .needs_root = "a client of another user")
{
	struct answer answer;
	_cleanup_(member_free) struct member ours = member_new(fixture, "ours u32 a");
	_cleanup_(actor_end) struct actor actor = actor_new(fixture->socket, &(struct actor_as){ .uid = NOBODY });

	ck_assert_uint_eq(as_user(NOBODY, raw_register(actor.socket, "ours u32 a", &answer, NULL)), 0);
	ck_assert_uint_ne(answer.stream, ours.answer.stream);
	expect_status(fixture, "tenants=1 streams=2 charges=1");
}

DAEMON_TEST(self_registered_client_is_disconnected, .options = { "--guard=off" },
	    .needs_kernel = "a client that registers by itself")
{
	struct member member, bystander;
	struct janitor janitor;
	struct string_item sentence;
	struct raw_reply reply;
	uint32_t refusal;

	janitor_start(&janitor, delete_event, "rogue");
	bystander = member_new(fixture, "honest u32 a");
	member = member_new(fixture, "harmless u32 a");
	ck_assert_int_eq(register_by_itself(member.stream, "rogue u32 a"), 0);
	/* The next request may be answered before the daemon notices it. */
	send_register(member.socket, "more u32 a");
	do {
		raw_receive(member.socket, &reply);
		ck_assert_int_gt(reply.size, 0);
		raw_reply_deinit(&reply);
	} while (reply.message.kind == KIND_REGISTERED);
	ck_assert_uint_eq(reply.message.kind, KIND_ERROR);
	ck_assert_int_eq(decode_error(reply.message.body, &refusal, &sentence), 0);
	ck_assert_uint_eq(refusal, REFUSAL_SELF_REGISTERED);
	ck_assert(eventually(log_has(fixture, "self-registered")));
	await_status(fixture, "connections=1");
	expect_account(bystander.socket, "leases=1");
	member_free(&member);
	member_free(&bystander);
	/* Its event ends with its stream, or is deleted by the janitor. */
	await_status(fixture, "streams=0");
	janitor_end(&janitor);
	ck_assert(!kernel_has("rogue"));
}

DAEMON_TEST(self_registered_client_that_left_is_logged, .options = { "--guard=off" },
	    .needs_kernel = "a client that registers by itself")
{
	struct janitor janitor;
	struct member member;

	janitor_start(&janitor, delete_event, "rogue");
	member = member_new(fixture, "harmless u32 a");
	ck_assert_int_eq(register_by_itself(member.stream, "rogue u32 a"), 0);
	member_free(&member);
	ck_assert(eventually(log_has(fixture, "self-registered")));
	await_status(fixture, "streams=0");
	janitor_end(&janitor);
}

DAEMON_TEST(honest_client_is_never_suspected, .options = { "--guard=off" })
{
	struct member member = member_new(fixture, "honest u32 a");

	ck_assert_uint_eq(trace(fixture, "honest", true), 1);
	for (unsigned i = 0; i < 20; i++) {
		take_batch(member.socket, numbered("honest_%u u32 a", i, 1), 1, NULL, NULL);
		ck_assert_int_eq(write_number(&member, i), 8);
	}
	trace(fixture, "honest", false);
	ck_assert(!log_has(fixture, "self-registered"));
	member_free(&member);
	await_status(fixture, "streams=0");
	ck_assert(!log_has(fixture, "self-registered"));
}
