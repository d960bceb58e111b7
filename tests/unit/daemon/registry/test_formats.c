/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Flags of REGISTER: names with several formats, and persistent events. */

#include "tests/unit/lists.h"

static unsigned count_multi_slots(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < SLOTS; i++)
		n += fake.slot[i].there && fake.slot[i].flags & REGISTER_MULTI_FORMAT;
	return n;
}

TEST(two_formats_of_a_name_are_two_events)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer one = get_with(&c[0], REGISTER_MULTI_FORMAT, "event u32 x");
	struct answer other = get_with(&c[0], REGISTER_MULTI_FORMAT, "event u64 x"), again;
	unsigned calls = count_calls();

	ck_assert_uint_ne(one.bit, other.bit);
	ck_assert_uint_ne(one.index, other.index);
	expect_charged(world, 2, 2);
	ck_assert_uint_eq(query(&c[0]).events, 2);
	again = get_with(&c[1], REGISTER_MULTI_FORMAT, "event u64 x");
	expect_same_answer(&other, &again);
	ck_assert_uint_eq(count_calls(), calls);
	/* An event of one format is a third; with other fields it is one of many formats. */
	get(&c[1], "event u32 x");
	expect_charged(world, 3, 4);
	again = get(&c[0], "event u64 x");
	expect_same_answer(&other, &again);
	expect_charged(world, 3, 4);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(fake.slot[i].flags, i < 2 ? REGISTER_MULTI_FORMAT : 0);
	/* Without fields. */
	ck_assert_uint_ne(get_with(&c[0], REGISTER_MULTI_FORMAT, "bare").bit, get(&c[0], "bare").bit);
	expect_charged(world, 5, 6);
}

TEST(later_event_with_other_fields_is_multi_format)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(other, world, 2);
	WELCOMED(another, world, 2);
	struct answer plain = get(&first, "event u32 x"), multi, again;

	multi = get(&other, "event u64 x");
	ck_assert_uint_eq(multi.length, 0);
	ck_assert_uint_eq(count_multi_slots(), 1);
	again = get(&another, "event u64 x");
	expect_same_answer(&multi, &again);
	again = get(&first, "event u32 x");
	expect_same_answer(&plain, &again);
	ck_assert_uint_eq(query(&other).events, 1);
	expect_charged(world, 2, 3);
	/* In the same tenant, too: an old and a new version of a program may run at the same time. */
	get(&first, "event u16 x");
	ck_assert_uint_eq(count_multi_slots(), 2);
	check_books(world->daemon);
	world_restart(world);
	check_books(world->daemon);
}

/* Unless it has that format, too. */
TEST(name_that_the_kernel_has_becomes_multi_format)
{
	static const struct {
		unsigned well, times, asked, multi;
		uint32_t refusal; /* of the first */
	} cases[] = {
		{ .well = 1, .times = 1, .asked = 4, .multi = 1, REFUSAL_NONE },
		{ .well = 0, .times = 4, .asked = 6, .multi = 2, REFUSAL_NAME_TAKEN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		GUARDED(world);
		WELCOMED(end, world, 1);
		struct answer answer[3], again;

		refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, cases[i].well, cases[i].times);
		REGISTER(&end, "one u32 x", "two u32 x", "three u32 x");
		expect_answers(&end, answer, 3);
		for (size_t j = 0; j < 3; j++)
			ck_assert_uint_eq(answer[j].refusal, j == 0 ? cases[i].refusal : REFUSAL_NONE);
		expect_asked(KERNEL_REGISTER, cases[i].asked);
		ck_assert_uint_eq(count_multi_slots(), cases[i].multi);
		ck_assert_uint_eq(query(&end).events, cases[i].refusal ? 2 : 3);
		check_books(world->daemon);
		if (cases[i].refusal)
			continue;
		again = get(&end, "one u32 x");
		expect_same_answer(&answer[0], &again);
	}
}

/* By then the packet that asked has been overwritten by the one of another tenant. */
TEST(late_refusal_is_logged_with_event_and_tenant)
{
	GUARDED(world);
	world->daemon->options.max_events = 1;
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 2);
	const char *log;

	log_begin(LOG_NOTICE);
	hold();
	REGISTER(&first, "plain u32 a");
	REGISTER(&second, "plain u32 a");
	REGISTER(&other, "a_name_that_is_longer u32 a");
	/* The second client keeps the event, so it is charged beside the one of many formats. */
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	hold_no_more();
	expect_refused(&first, REFUSAL_QUOTA_EXCEEDED);
	expect_each(&second, REFUSAL_NONE, 1);
	expect_each(&other, REFUSAL_NONE, 1);
	log = logged();
	expect_logged(log, " refused (", 1);
	expect_logged(log, "tenant process:1:program: plain refused (quota-exceeded)", 1);
}

TEST(many_taken_names_are_asked_for_again_in_parts)
{
	enum { NAMES = 100, PART = 50 };
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct list list = list_of(0, NAMES);

	hold();
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, NAMES);
	say_list(&end, &list);
	for (unsigned batches = 0; script.n_under_way > 0; batches++) {
		ck_assert_uint_le(TAILQ_FIRST(&script.under_way)->n, PART + 1);
		ck_assert_uint_lt(batches, 10);
		answer_one();
		turn(world);
	}
	hold_no_more();
	expect_list(&end, &list);
	expect_asked(KERNEL_REGISTER, 2 * NAMES);
	ck_assert_uint_eq(count_multi_slots(), NAMES);
}

TEST(client_leaving_before_the_retry_gets_nothing)
{
	GUARDED(world);

	for (unsigned left = 0; left < 2; left++) {
		WELCOMED(end, world, 1);

		hold();
		REGISTER(&end, "one u32 x");
		refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
		if (left == 0)
			break_connection(&end);
		answer_one();
		if (left == 1)
			break_connection(&end);
		turn(world);
		hold_no_more();
		turn(world);
		expect_asked(KERNEL_REGISTER, left == 0 ? 1 : 3);
		expect_no_charges(world);
		check_books(world->daemon);
	}
}

TEST(policy_may_forbid_a_second_format)
{
	GUARDED(world);
	world->daemon->options.tenant_is_process = false;
	world_adopt(world, "[/**]\nAllowMultiFormat=no\n");
	WELCOMED(first, world, 1);

	get(&first, "event u32 x");
	be_refused(&first, "event u64 x", REFUSAL_NAME_TAKEN);
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	be_refused(&first, "kernels u64 x", REFUSAL_NAME_TAKEN);
	expect_charged(world, 1, 1);
}

TEST(unsupported_flag_is_refused_and_costs_nothing)
{
	static const uint16_t flags[] = { REGISTER_PERSIST, REGISTER_MULTI_FORMAT, 1 << 2, 1 << 15 };
	GUARDED(world);
	WELCOMED(end, world, 1);

	script.kernel->facts.flags = 0;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		REGISTER_WITH(&end, flags[i], "event u32 x");
		expect_refused(&end, REFUSAL_KERNEL_TOO_OLD);
		expect_asked(KERNEL_REGISTER, 0);
		expect_no_charges(world);
	}
}

/* --- persistent events --- */

TEST(persistent_event_is_charged_while_the_daemon_lives)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);
	struct answer answer = get_with(&end, REGISTER_PERSIST, "event u32 x");

	ck_assert_uint_eq(fake.slot[0].flags, REGISTER_PERSIST);
	get_with(&end, REGISTER_PERSIST, "event u32 x");
	get(&end, "passing u32 x");
	release(&end, answer.bit);
	ck_assert_uint_eq(query(&end).events, 2);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	ck_assert(!look_at_lingering(world));
	ck_assert_ptr_null(world->daemon->registry.streams);
	ck_assert_uint_eq(count_fake_streams(), 0);
	expect_charged(world, 1, 0);
	expect_account(&next, 1, 0, 1);
	get(&next, "event u32 x");
	expect_account(&next, 1, 1, 0);
	world_end(world);
}

TEST(refused_event_does_not_persist)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_UNSUPPORTED, 0, 1);
	REGISTER_WITH(&end, REGISTER_PERSIST, "event u32 x");
	expect_refused(&end, REFUSAL_KERNEL_TOO_OLD);
	expect_no_charges(world);
}

/* The kernel is asked although the client has the event, on a stream that serves nobody new: the client keeps that one. */
TEST(event_that_becomes_persistent_stays_on_its_stream)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer one = get(&end, "event u32 x"), again;
	unsigned calls;

	leave_dead(&end, STREAM_DEAD_MIN + 1);
	calls = script.asked[KERNEL_REGISTER];
	again = get_with(&end, REGISTER_PERSIST, "event u32 x");
	expect_asked(KERNEL_REGISTER, calls + 1);
	expect_same_answer(&one, &again);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	look_at_lingering(world);
	expect_charged(world, 1, 0);
	world_end(world);
}
