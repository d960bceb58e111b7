/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The daemon with a kernel that takes its time, as the keeper will: answers come when the test says so, in order, after
 * whatever else has happened meanwhile, and may say no. What carries the calls out is the embedded backend, so that at the
 * end it can be seen whether it was told of everything.
 */

#include <sys/socket.h>

#include "daemon/identity/peer.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/tenant.h"
#include "protocol/transport.h"
#include "tests/unit/world.h"

/* --- HELLO --- */

TEST(a_client_is_welcomed_when_its_page_is_there_and_its_next_request_waits_for_that)
{
	WORLD(world, 10, 10);
	END(end, world, 1);

	hold();
	say_hello(&end);
	say_simply(&end, KIND_QUERY);
	expect_silence(&end);
	ck_assert_uint_eq(script.n_under_way, 1);
	hold_no_more();
	expect_welcome(&end);
	expect(&end, KIND_ACCOUNT);
	expect_silence(&end);
}

TEST(a_page_that_cannot_be_made_cuts_off_and_the_next_client_asks_anew)
{
	static const int results[] = { -EMFILE, -ENOMEM, KERNEL_E_FULL, KERNEL_E_UNSUPPORTED, 1000 };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		END(end, world, 1);

		refuse(KERNEL_PAGE_NEW, results[i], 0, 1);
		say_hello(&end);
		expect_cut(&end, REFUSAL_TROUBLE);
		expect_nothing_left(world);
	}
	WELCOMED(end, world, 1);
	ck_assert_uint_eq(query(&end).events, 0);
}

TEST(a_page_that_comes_when_its_client_and_tenant_have_gone_is_given_back)
{
	WORLD(world, 10, 10);
	END(end, world, 1);
	const struct batch *batch;

	hold();
	say_hello(&end);
	batch = TAILQ_FIRST(&script.under_way);
	break_connection(&end);
	ck_assert_ptr_null(world->daemon->registry.tenants);
	/* Nobody but the call itself knows any more what is asked for. */
	ck_assert_str_eq(batch->calls[0].text, "process:1:program");
	hold_no_more();
	ck_assert_uint_eq(script.asked[KERNEL_PAGE_FREE], 1);
	expect_nothing_left(world);
}

TEST(a_page_that_comes_too_late_is_the_daemons_fault_and_says_so)
{
	WORLD(world, 10, 10);
	END(end, world, 1);
	END(silent, world, 2);

	hold();
	say_hello(&end);
	world->daemon->connections.client_timeout = 0;
	ev_invoke(world->daemon->loop, &world->daemon->connections.w_deadlines, EV_TIMER);
	turn(world);
	expect_cut(&end, REFUSAL_TROUBLE);
	expect_cut(&silent, REFUSAL_TOO_SLOW);
	hold_no_more();
	expect_nothing_left(world);
}

/* Whether the kernel has it a second time or not. */
TEST(two_who_ask_for_one_page_at_the_same_time_both_get_it)
{
	for (unsigned i = 0; i < 2; i++) {
		WORLD(world, 10, 10);
		END(first, world, 1);
		END(second, world, 1);

		script.gives_pages_twice = i;
		hold();
		say_hello(&first);
		say_hello(&second);
		hold_no_more();
		expect_welcome(&first);
		expect_welcome(&second);
		ck_assert(is_same_file(first.page, second.page));
		ck_assert_uint_eq(query(&first).connections, 2);
	}
}

TEST(of_two_who_ask_for_one_page_the_second_gets_it_when_the_first_has_left)
{
	WORLD(world, 10, 10);
	END(first, world, 1);
	END(second, world, 1);

	hold();
	say_hello(&first);
	say_hello(&second);
	break_connection(&first);
	hold_no_more();
	expect_welcome(&second);
	get(&second, "event u32 x");
}

TEST(of_two_who_ask_for_one_page_the_second_gets_it_when_the_first_was_refused)
{
	WORLD(world, 10, 10);
	END(first, world, 1);
	END(second, world, 1);

	hold();
	say_hello(&first);
	say_hello(&second);
	refuse(KERNEL_PAGE_NEW, -EMFILE, 0, 1);
	hold_no_more();
	expect_cut(&first, REFUSAL_TROUBLE);
	expect_welcome(&second);
	get(&second, "event u32 x");
}

/* --- REGISTER --- */

TEST(what_is_under_way_is_charged_and_not_yet_leased)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer[2];

	hold();
	REGISTER(&end, "one u32 x", "two u32 x");
	expect_silence(&end);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(world->daemon->registry.leases, 0);
	ck_assert_uint_eq(count_slots(), 0);
	hold_no_more();
	expect_answers(&end, answer, 2);
	ck_assert_uint_eq(answer[0].refusal + answer[1].refusal, 0);
	ck_assert_int_ge(end.stream, 0);
	ck_assert_uint_eq(world->daemon->registry.leases, 2);
	ck_assert_uint_eq(query(&end).events, 2);
	ck_assert_uint_eq(query(&end).lingering, 0);
}

TEST(what_is_under_way_counts_when_the_next_one_asks)
{
	WORLD(world, 4, 2);
	WELCOMED(first, world, 1);
	WELCOMED(sibling, world, 1);
	WELCOMED(stranger, world, 2);
	struct answer answer[2];

	hold();
	REGISTER(&first, "one u32 x", "two u32 x");
	REGISTER(&sibling, "three u32 x");
	REGISTER(&stranger, "three u32 x", "four u32 x");
	hold_no_more();
	expect_answers(&first, answer, 2);
	expect_refused(&sibling, REFUSAL_QUOTA_EXCEEDED);
	expect_answers(&stranger, answer, 2);
	ck_assert_uint_eq(answer[0].refusal, REFUSAL_NONE);
	/* The last place is left to who has none. */
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
}

TEST(a_registration_that_the_kernel_refuses_is_named_and_costs_nothing)
{
	static const struct {
		int result;
		uint32_t refusal;
	} answers[] = {
		{ KERNEL_E_NAME_TAKEN, REFUSAL_NAME_TAKEN },
		{ KERNEL_E_PAGE_FULL, REFUSAL_PAGE_FULL },
		{ KERNEL_E_FULL, REFUSAL_MACHINE_FULL },
		{ KERNEL_E_UNSUPPORTED, REFUSAL_KERNEL_TOO_OLD },
		{ KERNEL_E_BAD_DESCRIPTION, REFUSAL_BAD_DESCRIPTION },
		/* These are no answers to it. */
		{ KERNEL_E_LINGERS, REFUSAL_TROUBLE },
		{ KERNEL_E_GONE, REFUSAL_TROUBLE },
		{ KERNEL_E_NO_SUCH, REFUSAL_TROUBLE },
		{ 4711, REFUSAL_TROUBLE },
		{ -ENOMEM, REFUSAL_TROUBLE },
		{ -EIO, REFUSAL_TROUBLE },
	};
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		hold();
		REGISTER(&end, "event u32 x");
		refuse(KERNEL_REGISTER, answers[i].result, 0, 1);
		hold_no_more();
		expect_refused(&end, answers[i].refusal);
		expect_no_charges(world);
		ck_assert_uint_eq(world->daemon->registry.leases, 0);
		ck_assert_uint_eq(query(&end).events, 0);
	}
	get(&end, "event u32 x");
}

TEST(one_refusal_in_a_batch_is_that_of_one_event)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer[5];

	hold();
	REGISTER(&end, "one u32 x", "two long x", "three u32 x", "four u32 x", "one u32 x");
	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 1, 1);
	hold_no_more();
	expect_answers(&end, answer, 5);
	ck_assert_uint_eq(answer[0].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_BAD_DESCRIPTION);
	ck_assert_uint_eq(answer[2].refusal, REFUSAL_PAGE_FULL);
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(answer[4].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(answer[4].bit, answer[0].bit);
	ck_assert_uint_eq(answer[4].index, answer[0].index);
	ck_assert_uint_ne(answer[3].bit, answer[0].bit);
	ck_assert_uint_eq(query(&end).events, 2);
	ck_assert_uint_eq(query(&end).leases, 2);
	ck_assert_uint_eq(count_slots(), 2);
}

TEST(a_stream_that_cannot_be_made_refuses_all_and_the_next_request_makes_one)
{
	static const int results[] = { -EMFILE, KERNEL_E_NO_SUCH, KERNEL_E_FULL };
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		struct answer answer[2];

		hold();
		REGISTER(&end, "one u32 x", "two u32 x");
		refuse(KERNEL_STREAM_NEW, results[i], 0, 1);
		hold_no_more();
		expect_answers(&end, answer, 2);
		ck_assert_uint_eq(answer[0].refusal, REFUSAL_TROUBLE);
		ck_assert_uint_eq(answer[1].refusal, REFUSAL_TROUBLE);
		ck_assert_int_eq(end.stream, -1);
		expect_no_charges(world);
		ck_assert_ptr_null(world->daemon->registry.streams);
		ck_assert_ptr_null(embedded()->sources);
	}
	get(&end, "one u32 x");
	ck_assert_int_ge(end.stream, 0);
}

TEST(a_stream_on_which_nothing_was_granted_does_not_leave)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer;

	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
	REGISTER(&end, "event u32 x");
	expect_refused(&end, REFUSAL_PAGE_FULL);
	ck_assert_int_eq(end.stream, -1);
	ck_assert_ptr_null(world->daemon->registry.streams);
	answer = get(&end, "event u32 x");
	ck_assert_int_ge(end.stream, 0);
	tracer_switch(script.kernel->tracer, "event", true);
	write_record(&end, answer.index);
	tracer_switch(script.kernel->tracer, "event", false);
	ck_assert_uint_eq(query(&end).records, 1);
}

TEST(two_who_register_one_event_at_the_same_time_have_one_charge_and_two_leases)
{
	WORLD(world, 10, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one, other;

	hold();
	REGISTER(&first, "event u32 x");
	REGISTER(&second, "event u32 x");
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	hold_no_more();
	one = expect_granted(&first);
	other = expect_granted(&second);
	ck_assert_uint_eq(one.bit, other.bit);
	ck_assert_uint_ne(one.stream, other.stream);
	ck_assert_uint_eq(query(&first).events, 1);
	ck_assert_uint_eq(world->daemon->registry.leases, 2);
}

TEST(of_two_who_register_one_event_the_second_has_it_when_the_first_was_refused)
{
	WORLD(world, 10, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	hold();
	REGISTER(&first, "event u32 x");
	REGISTER(&second, "event u32 x");
	refuse(KERNEL_REGISTER, -EMFILE, 0, 1);
	hold_no_more();
	expect_refused(&first, REFUSAL_TROUBLE);
	expect_granted(&second);
	ck_assert_uint_eq(query(&second).events, 1);
	ck_assert_uint_eq(query(&first).leases, 0);
}

TEST(a_grant_that_comes_when_its_client_has_left_is_given_back)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	hold();
	REGISTER(&end, "one u32 x", "two u32 x", "one u32 x");
	break_connection(&end);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	hold_no_more();
	expect_nothing_left(world);
}

/* The daemon learns of it only when it wants to answer. */
TEST(a_grant_that_comes_when_its_client_has_hung_up_is_given_back)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	hold();
	REGISTER(&end, "one u32 x", "two u32 x");
	end_hang_up(&end);
	hold_no_more();
	turn(world);
	expect_nothing_left(world);
}

TEST(a_refusal_that_comes_when_its_client_has_left_leaves_nothing)
{
	static const enum kernel_op ops[] = { KERNEL_STREAM_NEW, KERNEL_REGISTER };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		WELCOMED(end, world, 1);

		hold();
		REGISTER(&end, "one u32 x", "two u32 x");
		break_connection(&end);
		refuse(ops[i], -EMFILE, 0, 2);
		hold_no_more();
		expect_nothing_left(world);
		refuse(ops[i], 0, 0, 0);
	}
}

/* What was there before is not the worse for it: another process may hold the stream. */
TEST(a_client_that_leaves_while_it_registers_more_leaves_its_stream_as_any_other)
{
	static const int results[] = { 0, -EMFILE };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		WELCOMED(end, world, 1);

		get(&end, "one u32 x");
		hold();
		REGISTER(&end, "two u32 x", "three long x");
		break_connection(&end);
		if (results[i])
			refuse(KERNEL_REGISTER, results[i], 0, 1);
		hold_no_more();
		ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
		ck_assert_uint_eq(count_slots(), 1);
		ck_assert(look_at_lingering(world));
		end.stream = fd_close(end.stream);
		ck_assert(!look_at_lingering(world));
		expect_nothing_left(world);
	}
}

/* The page goes after the streams that stand on it, or the kernel cannot let go of it. */
TEST(a_client_that_leaves_with_an_empty_stream_takes_its_page_along)
{
	static const char *const batches[] = { "bad long x", "two u32 x" };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		WELCOMED(end, world, 1);

		say_release(&end, get(&end, "one u32 x").bit);
		expect_released(&end, 1);
		expect_no_charges(world);
		hold();
		REGISTER(&end, batches[i]);
		break_connection(&end);
		refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
		hold_no_more();
		expect_nothing_left(world);
		refuse(KERNEL_REGISTER, 0, 0, 0);
	}
}

/* --- RELEASE --- */

TEST(a_released_event_is_charged_until_the_kernel_has_let_it_go)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");

	hold();
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	say_release(&end, answer.bit);
	expect_released(&end, 0);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).lingering, 1);
	ck_assert_uint_eq(query(&end).leases, 0);
	hold_no_more();
	ck_assert_uint_eq(query(&end).events, 0);
	ck_assert_uint_eq(query(&end).lingering, 0);
	expect_no_charges(world);
}

TEST(a_released_event_that_the_kernel_keeps_is_charged_until_its_stream_is_closed)
{
	static const int results[] = { KERNEL_E_LINGERS, -EIO };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		WELCOMED(end, world, 1);
		struct answer answer = get(&end, "event u32 x");

		refuse(KERNEL_RELEASE, results[i], 0, 1);
		say_release(&end, answer.bit);
		expect_released(&end, 1);
		ck_assert_uint_eq(query(&end).events, 1);
		ck_assert_uint_eq(query(&end).lingering, 1);
		end_hang_up(&end);
		ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
		ck_assert(look_at_lingering(world));
		end.stream = fd_close(end.stream);
		ck_assert(!look_at_lingering(world));
		expect_nothing_left(world);
	}
}

TEST(an_event_that_lingers_is_claimed_again_and_costs_no_more)
{
	WORLD(world, 10, 1);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x"), again;

	refuse(KERNEL_RELEASE, KERNEL_E_LINGERS, 0, 1);
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	ck_assert_uint_eq(query(&end).lingering, 1);
	again = get(&end, "event u32 x");
	ck_assert_uint_eq(again.bit, answer.bit);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).lingering, 0);
	say_release(&end, again.bit);
	expect_released(&end, 1);
	look_at_lingering(world);
	expect_no_charges(world);
}

TEST(an_event_that_is_claimed_again_while_it_is_released_is_there_and_takes_records)
{
	WORLD(world, 10, 1);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");

	hold();
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	REGISTER(&end, "event u32 x");
	hold_no_more();
	answer = expect_granted(&end);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).lingering, 0);
	ck_assert_uint_eq(query(&end).leases, 1);
	tracer_switch(script.kernel->tracer, "event", true);
	write_record(&end, answer.index);
	tracer_switch(script.kernel->tracer, "event", false);
	ck_assert_uint_eq(query(&end).records, 1);
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	expect_no_charges(world);
}

/* The calls are carried out in order; which answer comes first is another matter. */
TEST(an_event_that_was_claimed_again_before_its_release_is_answered_stays_claimed)
{
	WORLD(world, 10, 1);
	WELCOMED(end, world, 1);
	struct answer first = get(&end, "event u32 x"), answer;
	struct batch *release, *claim;

	hold();
	say_release(&end, first.bit);
	expect_released(&end, 1);
	REGISTER(&end, "event u32 x");
	release = TAILQ_FIRST(&script.under_way);
	claim = TAILQ_LAST(&script.under_way, batches);
	carry_out_batch(release);
	carry_out_batch(claim);
	answer_batch(claim);
	answer = expect_granted(&end);
	ck_assert_uint_ne(answer.stream, first.stream);
	hold_no_more();
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).leases, 1);
	ck_assert_uint_eq(query(&end).lingering, 0);
	ck_assert_uint_eq(count_slots(), 1);
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	expect_no_charges(world);
}

TEST(an_event_that_another_claims_while_it_is_released_is_the_others)
{
	WORLD(world, 10, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer answer = get(&first, "event u32 x");

	hold();
	say_release(&first, answer.bit);
	expect_released(&first, 1);
	REGISTER(&second, "event u32 x");
	hold_no_more();
	answer = expect_granted(&second);
	ck_assert_uint_eq(query(&second).events, 1);
	say_release(&first, answer.bit);
	expect_released(&first, 0);
	say_release(&second, answer.bit);
	expect_released(&second, 1);
	expect_no_charges(world);
}

TEST(a_release_that_is_answered_when_its_client_has_left_leaves_nothing)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");

	hold();
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	/* The copy that the program's child has keeps the stream open. */
	end_hang_up(&end);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	hold_no_more();
	expect_nothing_left(world);
}

TEST(a_release_that_is_answered_when_its_stream_has_ended_finds_nobody)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");
	struct batch *release;

	hold();
	say_release(&end, answer.bit);
	expect_released(&end, 1);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	release = TAILQ_FIRST(&script.under_way);
	TAILQ_REMOVE(&script.under_way, release, entry);
	hold_no_more();
	TAILQ_INSERT_TAIL(&script.under_way, release, entry);
	expect_nothing_left(world);
	answer_all();
	expect_nothing_left(world);
}

TEST(a_client_that_leaves_releases_what_nobody_holds_open)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "one u32 x");
	get(&end, "two u32 x");
	hold();
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(script.n_under_way, 1);
	hold_no_more();
	expect_nothing_left(world);
}

/* --- STILL_OPEN --- */

TEST(a_stream_whose_state_cannot_be_told_stays_charged)
{
	static const int results[] = { -EIO, -ENOMEM, -ETIMEDOUT };
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	end_hang_up(&end);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		refuse(KERNEL_STILL_OPEN, results[i], 0, 1);
		ck_assert(look_at_lingering(world));
		ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
		ck_assert_uint_eq(count_slots(), 1);
	}
	end.stream = fd_close(end.stream);
	ck_assert(!look_at_lingering(world));
	expect_nothing_left(world);
}

TEST(a_stream_that_the_kernel_has_never_heard_of_is_gone)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	end_hang_up(&end);
	refuse(KERNEL_STILL_OPEN, KERNEL_E_NO_SUCH, 0, 1);
	ck_assert(!look_at_lingering(world));
	expect_nothing_left(world);
}

/* However slow the kernel is, questions do not pile up. */
TEST(a_stream_is_asked_about_once_at_a_time)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	hold();
	end_hang_up(&end);
	for (unsigned i = 0; i < 5; i++)
		ck_assert(look_at_lingering(world));
	ck_assert_uint_eq(script.n_under_way, 1);
	answer_all();
	for (unsigned i = 0; i < 5; i++)
		ck_assert(look_at_lingering(world));
	ck_assert_uint_eq(script.n_under_way, 1);
}

TEST(streams_that_linger_end_one_by_one)
{
	WORLD(world, 10, 10);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 2);

	get(&first, "event u32 x");
	get(&second, "event u32 x");
	get(&third, "event u32 x");
	end_hang_up(&first);
	end_hang_up(&second);
	end_hang_up(&third);
	ck_assert_uint_eq(count_slots(), 3);
	second.stream = fd_close(second.stream);
	look_at_lingering(world);
	ck_assert_uint_eq(count_slots(), 2);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	third.stream = fd_close(third.stream);
	look_at_lingering(world);
	ck_assert_uint_eq(count_slots(), 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	first.stream = fd_close(first.stream);
	ck_assert(!look_at_lingering(world));
	expect_nothing_left(world);
}

/* --- CHANGED --- */

/* Nothing more finds room in what the client has not read yet. */
static unsigned fill_queue(struct end *end)
{
	static const char junk[4096];
	unsigned n = 0;

	while (transport_send(end->client->fd, junk, sizeof(junk), NULL, 0, MSG_DONTWAIT) == 0)
		n++;
	return n;
}

static void empty_queue(struct end *end, unsigned n)
{
	char junk[4096];

	while (n-- > 0)
		ck_assert_int_eq(recv(end->socket, junk, sizeof(junk), 0), sizeof(junk));
}

TEST(a_change_during_a_registration_does_not_push_out_the_answer)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct wire_changed changed;
	struct answer answer;
	struct cursor bits;
	unsigned junk;
	uint16_t bit;

	say_simply(&end, KIND_WATCH);
	expect(&end, KIND_WATCHING);
	answer = get(&end, "one u32 x");
	hold();
	REGISTER(&end, "two u32 x");
	junk = fill_queue(&end);
	tracer_switch(script.kernel->tracer, "one", true);
	turn(world);
	hold_no_more();
	turn(world);
	empty_queue(&end, junk);
	ck_assert_uint_ne(expect_granted(&end).bit, answer.bit);
	ck_assert_int_eq(decode_changed(expect(&end, KIND_CHANGED)->body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.count, 1);
	cursor_get(&bits, &bit, sizeof(bit));
	ck_assert_uint_eq(le16toh(bit), answer.bit);
	expect_silence(&end);
	tracer_switch(script.kernel->tracer, "one", false);
	turn(world);
	expect(&end, KIND_CHANGED);
}

/* --- the end --- */

static void begin_hello(struct end *end)
{
	say_hello(end);
}

static void begin_stream(struct end *end)
{
	REGISTER(end, "one u32 x", "two u32 x");
}

static void begin_to_leave_during_that(struct end *end)
{
	REGISTER(end, "one u32 x", "two u32 x");
	break_connection(end);
}

static void begin_release(struct end *end)
{
	say_release(end, end->bit);
}

static void begin_release_and_more(struct end *end)
{
	say_release(end, end->bit);
	REGISTER(end, "one u32 x", "two u32 x");
}

static void begin_release_and_leave(struct end *end)
{
	say_release(end, end->bit);
	end_hang_up(end);
}

static void begin_to_linger(struct end *end)
{
	end_hang_up(end);
}

/* Whatever it waits for, it ends with all charges refunded (which it asserts itself) and every answer given. */
TEST(a_daemon_that_ends_with_something_under_way_ends_well)
{
	static const struct {
		void (*begin)(struct end *);
		bool welcomed;
		bool has_stream;
	} cases[] = {
		{ begin_hello, false, false },
		{ begin_stream, true, false },
		{ begin_to_leave_during_that, true, false },
		{ begin_stream, true, true },
		{ begin_to_leave_during_that, true, true },
		{ begin_release, true, true },
		{ begin_release_and_more, true, true },
		{ begin_release_and_leave, true, true },
		{ begin_to_linger, true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		WORLD(world, 10, 10);
		_cleanup_(end_deinit) struct end end = cases[i].welcomed ? end_welcomed(world, 1) : end_new(world, 1);

		if (cases[i].has_stream)
			get(&end, "one u32 x");
		hold();
		cases[i].begin(&end);
		ck_assert_uint_gt(script.n_under_way, 0);
		world_end(world);
		ck_assert_uint_eq(script.n_under_way, 0);
	}
}

/* --- histories --- */

enum {
	ACTORS = 6,
	TENANTS = 3,
	COPIES = 8,
	HISTORIES = 6,
	STEPS = 4000,
	CAPACITY = 6,
	MAX_EVENTS = 4,
};

static const char *const descriptions[] = {
	"one u32 x", "two u32 x", "three u32 x", "four u32 x", "five u32 x",
	"six u32 x", "one u64 y", "seven u32 x", "no long x",
};

struct actor {
	struct end end;
	bool there;
};

struct history {
	struct world *world;
	struct actor actor[ACTORS];
	int copy[COPIES]; /* of streams, held by who knows whom */
	unsigned granted;
	unsigned refused;
};

static struct slot *find_slot(uint32_t stream, uint32_t index)
{
	struct embedded *kernel = embedded();
	struct source *source;

	NUMBER_FIND(by_number, kernel->sources, stream, source);
	return source ? slot_find(source, index) : NULL;
}

/* What the client was told is so. */
static void expect_lease_holds(const struct lease *lease)
{
	const struct reference *reference = lease->reference;
	const struct slot *slot = find_slot(reference->stream->number, reference->index);

	if (!slot || slot->holding->bit != lease->bit || reference->grant->bit != lease->bit ||
	    !streq(slot->holding->of.event->description, reference->grant->event->description))
		ck_abort_msg("a lease on %s that the kernel knows nothing of", reference->grant->event->description);
}

static unsigned check_leases(const struct daemon *daemon)
{
	struct client *client;
	struct lease *lease;
	unsigned n = 0;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		for (lease = client->holder.leases; lease; lease = lease->by_bit.next, n++)
			expect_lease_holds(lease);
	return n;
}

static unsigned count_leases(const struct grant *grant)
{
	const struct reference *reference;
	const struct lease *lease;
	unsigned n = 0;

	LIST_FOREACH(reference, &grant->registered, in_grant)
		LIST_FOREACH(lease, &reference->leases, in_reference)
			n++;
	return n;
}

static void check_tenant(const struct tenant *tenant)
{
	const struct holder *holder;
	unsigned connections = 0, grants = 0, lingering = 0;

	LIST_FOREACH(holder, &tenant->holders, in_tenant)
		connections++;
	for (const struct grant *grant = tenant->grants; grant; grant = grant->by_event.next) {
		grants++;
		lingering += grant->leases == 0;
		if (grant->leases != count_leases(grant))
			ck_abort_msg("%s: leases", grant->event->description);
	}
	if (tenant->connections != connections || tenant->level->own.held != grants || tenant->lingering != lingering)
		ck_abort_msg("%s: %u connections, %u charged, %u lingering; there are %u, %u, %u", tenant->path,
			     tenant->connections, tenant->level->own.held, tenant->lingering, connections, grants,
			     lingering);
	if (grants > MAX_EVENTS)
		ck_abort_msg("%s has %u events", tenant->path, grants);
}

static unsigned count_references(const struct daemon *daemon)
{
	unsigned n = 0;

	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		n += HASH_CNT(by_grant, stream->references);
	return n;
}

/* With nothing under way, both sides have the same books. */
static void check_the_kernels_books(const struct daemon *daemon)
{
	unsigned pages = 0;

	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		pages += tenant->page_fd >= 0;
	if (HASH_CNT(by_number, embedded()->pages) != pages)
		ck_abort_msg("%u pages, not %u", HASH_CNT(by_number, embedded()->pages), pages);
	if (HASH_CNT(by_number, embedded()->sources) != HASH_CNT(by_number, daemon->registry.streams))
		ck_abort_msg("%u streams, not %u", HASH_CNT(by_number, embedded()->sources),
			     HASH_CNT(by_number, daemon->registry.streams));
	if (count_slots() != count_references(daemon))
		ck_abort_msg("%u registered, not %u", count_slots(), count_references(daemon));
}

static void check_books(const struct daemon *daemon)
{
	unsigned events = 0, leases = check_leases(daemon);

	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		check_tenant(tenant);
	for (const struct event *event = daemon->registry.events; event; event = event->by_key.next, events++)
		if (LIST_EMPTY(&event->grants))
			ck_abort_msg("nobody has %s", event->description);
	if (daemon->registry.machine.common != events || events > CAPACITY || daemon->registry.leases != leases)
		ck_abort_msg("%u charged for %u events, %u of %u leases", daemon->registry.machine.common, events,
			     daemon->registry.leases, leases);
	if (script.n_under_way == 0)
		check_the_kernels_books(daemon);
}

static void close_copy(struct history *history)
{
	int *copy = &history->copy[random() % COPIES];

	*copy = fd_close(*copy);
}

static void actor_leaves(struct history *history, struct actor *actor)
{
	int *copy = &history->copy[random() % COPIES];

	/* Some of them leave a child behind. */
	if (random() % 2 && *copy < 0)
		*copy = fd_steal(&actor->end.stream);
	end_deinit(&actor->end);
	actor->there = false;
}

static void actor_comes(struct history *history, struct actor *actor)
{
	actor->end = end_new(history->world, 1 + random() % TENANTS);
	actor->there = true;
	say_hello(&actor->end);
}

static void actor_asks(struct actor *actor)
{
	const char *batch[4];
	size_t n = (size_t)random() % ARRAY_SIZE(batch);

	for (size_t i = 0; i < n; i++)
		batch[i] = descriptions[(size_t)random() % ARRAY_SIZE(descriptions)];
	say_register(&actor->end, 0, batch, n);
}

static void count_answers(struct history *history, struct end *end)
{
	struct answers answers;
	struct answer answer;

	if (end->heard.message.kind != KIND_REGISTERED)
		return;
	ck_assert_int_eq(decode_registered(end->heard.message.body, &answers), 0);
	while (answers_next(&answers, &answer))
		*(answer.refusal ? &history->refused : &history->granted) += 1;
	if (end->heard.fds.count > 0) {
		fd_close(end->stream);
		end->stream = fdset_steal(&end->heard.fds, 0);
	}
}

/* Whoever was cut off leaves, as it would. */
static void actors_hear(struct history *history)
{
	for (size_t i = 0; i < ACTORS; i++) {
		struct actor *actor = &history->actor[i];

		while (actor->there && hear(&actor->end))
			count_answers(history, &actor->end);
		if (actor->there && actor->end.heard.size != -EAGAIN)
			actor_leaves(history, actor);
	}
}

static void kernel_will_refuse(void)
{
	static const enum kernel_op ops[] = { KERNEL_PAGE_NEW, KERNEL_STREAM_NEW, KERNEL_REGISTER, KERNEL_RELEASE,
					      KERNEL_STILL_OPEN };
	enum kernel_op op = ops[(size_t)random() % ARRAY_SIZE(ops)];
	int result = op == KERNEL_RELEASE    ? KERNEL_E_LINGERS
		     : op == KERNEL_REGISTER ? 1 + random() % KERNEL_E_UNSUPPORTED
					     : -EMFILE;

	refuse(op, result, (unsigned)random() % 3, (unsigned)random() % 3);
}

static void act(struct history *history, struct actor *actor)
{
	if (!actor->there) {
		actor_comes(history, actor);
		return;
	}
	switch (random() % 8) {
	case 0:
		actor_leaves(history, actor);
		return;
	case 1:
		break_connection(&actor->end);
		return;
	case 2:
	case 3:
	case 4:
		say_release(&actor->end, (uint32_t)random() % (2 * MAX_EVENTS) * 8);
		return;
	default:
		actor_asks(actor);
	}
}

static void step(struct history *history)
{
	switch (random() % 16) {
	case 0:
		close_copy(history);
		break;
	case 1:
		look_at_lingering(history->world);
		break;
	case 2:
		kernel_will_refuse();
		break;
	case 3:
	case 4:
		for (int n = random() % 4; n > 0 && script.n_under_way > 0; n--)
			answer_one();
		break;
	case 5:
		answer_all();
		break;
	default:
		act(history, &history->actor[random() % ACTORS]);
	}
	turn(history->world);
	actors_hear(history);
	check_books(history->world->daemon);
}

TEST(whatever_happens_in_whichever_order_the_books_balance)
{
	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		WORLD(world, CAPACITY, MAX_EVENTS);
		static struct history history;

		srandom(seed);
		memset(&history, 0, sizeof(history));
		history.world = world;
		memset(history.copy, -1, sizeof(history.copy));
		hold();
		for (unsigned i = 0; i < STEPS; i++)
			step(&history);
		ck_assert_uint_gt(history.granted, STEPS / 20);
		ck_assert_uint_gt(history.refused, STEPS / 20);
		hold_no_more();
		for (size_t i = 0; i < ACTORS; i++)
			if (history.actor[i].there)
				actor_leaves(&history, &history.actor[i]);
		for (size_t i = 0; i < COPIES; i++)
			fd_close(history.copy[i]);
		refuse(0, 0, 0, 0);
	}
}

/* --- memory --- */

/* A client that takes whatever comes. */
static void live_a_little(struct world *world)
{
	END(end, world, 1);

	end.may_be_cut = true;
	say_hello(&end);
	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&end, "one u32 x", "two u32 x", "bad long x");
		say_release(&end, 8);
		say_simply(&end, KIND_QUERY);
		while (hear(&end))
			;
	}
}

/* The first that finds no memory is another one each time, until all find some. */
TEST(whatever_finds_no_memory_costs_nothing_and_the_next_client_finds_everything_well)
{
	ev_set_allocator(evs_own_memory);
	for (unsigned mode = 0; mode < 2; mode++) {
		WORLD(world, 10, 10);
		long n;

		memory_comes_back = mode == 1;
		script.kernel->ops = script.real;
		for (n = 0; n < 1000; n++) {
			bool enough;

			allocations_given = n;
			live_a_little(world);
			enough = memory_comes_back ? allocations_given >= 0 : allocations_given > 0;
			allocations_given = -1;
			turn(world);
			look_at_lingering(world);
			turn(world);
			expect_nothing_left(world);
			if (enough)
				break;
		}
		ck_assert_int_gt(n, 20);
		ck_assert_int_lt(n, 1000);
	}
}

TEST(a_connection_that_finds_no_memory_leaves_nothing)
{
	WORLD(world, 10, 10);
	struct peer peer = { .pid = 1, .comm = "program" };
	struct tenant *tenant;
	int r = -ENOMEM;
	long n;

	for (n = 0; r < 0; n++) {
		expect_nothing_left(world);
		allocations_left = n;
		r = tenant_of_peer(&world->daemon->registry, &peer, &tenant);
		allocations_left = -1;
		ck_assert(r == 0 || r == -ENOMEM);
	}
	ck_assert_int_gt(n, 2);
	allocations_left = 0;
	r = client_new(&world->daemon->connections, 0, SOCKET_CLIENTS, &peer, tenant);
	allocations_left = -1;
	ck_assert_int_eq(r, -ENOMEM);
	tenant_release(tenant);
}
