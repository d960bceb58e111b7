/* SPDX-License-Identifier: GPL-2.0-or-later */

/* How the daemon shares streams where a guard keeps clients from registering on them, and what it does where none does. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "daemon/process/log.h"
#include "daemon/registry/bundle.h"
#include "protocol/row.h"
#include "tests/unit/books.h"

/* What is said on stderr meanwhile. */
struct listener_of_logs {
	int memory;
	int saved;
};

static struct listener_of_logs logs_begin(void)
{
	struct listener_of_logs logs = { .memory = memfd_create("log", MFD_CLOEXEC) };

	fflush(stderr);
	logs.saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	dup2(logs.memory, STDERR_FILENO);
	log_open(LOG_DEBUG, false);
	return logs;
}

/* How often that was said. */
static unsigned logs_end(struct listener_of_logs *logs, const char *what)
{
	static char text[65536];
	unsigned n = 0;
	ssize_t size;

	fflush(stderr);
	dup2(logs->saved, STDERR_FILENO);
	close(logs->saved);
	size = pread(logs->memory, text, sizeof(text) - 1, 0);
	text[MAX(size, 0)] = '\0';
	close(logs->memory);
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	log_open(LOG_EMERG, false);
	return n;
}

/* --- sharing --- */

TEST(two_clients_of_one_tenant_and_user_share_a_stream_and_only_the_first_costs_anything)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one = get(&first, "event u32 x"), other;
	unsigned calls = count_calls();

	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	other = get(&second, "event u32 x");
	ck_assert_uint_eq(count_calls(), calls);
	expect_same_answer(&one, &other);
	ck_assert(is_same_file(first.stream, second.stream));
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(world->daemon->registry.leases, 2);
	ck_assert_uint_eq(query(&second).events, 1);
	ck_assert_uint_eq(count_fake_streams(), 1);
	ck_assert_uint_eq(count_fake_slots(), 1);
}

/* Even with the kernel busy. */
TEST(what_is_there_already_is_given_without_waiting)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer answer[2];

	REGISTER(&first, "one u32 x", "two u32 x");
	expect_answers(&first, answer, 2);
	hold();
	REGISTER(&second, "two u32 x", "one u32 x");
	ck_assert_uint_eq(script.n_under_way, 0);
	expect_answers(&second, answer, 2);
	ck_assert_uint_eq(answer[0].refusal + answer[1].refusal, 0);
	ck_assert_int_ge(second.stream, 0);
}

TEST(what_the_second_needs_besides_costs_one_call_and_is_the_firsts_from_then_on)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer answer[2], again;
	unsigned calls;

	get(&first, "one u32 x");
	calls = count_calls();
	REGISTER(&second, "one u32 x", "two u32 x");
	expect_answers(&second, answer, 2);
	ck_assert_uint_eq(answer[0].refusal + answer[1].refusal, 0);
	ck_assert_uint_eq(answer[0].stream, answer[1].stream);
	ck_assert_uint_ne(answer[0].index, answer[1].index);
	ck_assert_uint_eq(count_calls(), calls + 1);
	again = get(&first, "two u32 x");
	ck_assert_uint_eq(count_calls(), calls + 1);
	expect_same_answer(&answer[1], &again);
	/* It has the file already. */
	ck_assert_uint_eq(first.heard.message.streams, 0);
}

TEST(another_user_gets_a_stream_of_its_own_with_the_same_bits)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	WELCOMED_AS(third, world, 1, getuid() + 1);
	struct answer one = get(&first, "event u32 x"), another = get(&other, "event u32 x");

	ck_assert_uint_ne(one.stream, another.stream);
	ck_assert(!is_same_file(first.stream, other.stream));
	ck_assert_uint_eq(one.bit, another.bit);
	ck_assert_uint_eq(get(&third, "event u32 x").stream, another.stream);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(query(&other).events, 1);
}

TEST(another_tenant_gets_a_stream_of_its_own)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(other, world, 2);

	ck_assert_uint_ne(get(&first, "event u32 x").stream, get(&other, "event u32 x").stream);
	ck_assert(!is_same_file(first.stream, other.stream));
	ck_assert_uint_eq(query(&other).events, 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

/* --- while it is being made --- */

TEST(who_asks_while_the_stream_is_being_made_builds_on_it)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one, other[2];

	hold();
	REGISTER(&first, "one u32 x");
	REGISTER(&second, "one u32 x", "two u32 x");
	ck_assert_uint_eq(script.n_under_way, 2);
	expect_silence(&first);
	expect_silence(&second);
	hold_no_more();
	one = expect_granted(&first);
	expect_answers(&second, other, 2);
	expect_same_answer(&one, &other[0]);
	ck_assert_uint_eq(other[1].stream, one.stream);
	ck_assert(is_same_file(first.stream, second.stream));
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

TEST(a_stream_that_cannot_be_made_refuses_all_who_built_on_it_and_nothing_is_left)
{
	static const int results[] = { -EMFILE, -ENOMEM, KERNEL_E_FULL, KERNEL_E_NO_SUCH };
	GUARDED(world);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		WELCOMED(first, world, 1);
		WELCOMED(second, world, 1);
		struct answer answer[2];

		hold();
		REGISTER(&first, "one u32 x");
		REGISTER(&second, "one u32 x", "two u32 x");
		refuse(KERNEL_STREAM_NEW, results[i], 0, 1);
		hold_no_more();
		expect_refused(&first, REFUSAL_TROUBLE);
		expect_answers(&second, answer, 2);
		for (size_t j = 0; j < 2; j++) {
			ck_assert_uint_eq(answer[j].refusal, REFUSAL_TROUBLE);
			ck_assert_uint_gt(answer[j].length, 0);
		}
		ck_assert_int_eq(first.stream, -1);
		ck_assert_int_eq(second.stream, -1);
		expect_no_charges(world);
		ck_assert_ptr_null(world->daemon->registry.streams);
		/* The next one is made. */
		get(&second, "one u32 x");
		ck_assert_uint_eq(get(&first, "one u32 x").stream, second.heard.message.stream[0]);
	}
}

TEST(whoever_leaves_while_the_stream_is_being_made_the_other_gets_it)
{
	for (unsigned leaves = 0; leaves < 2; leaves++) {
		GUARDED(world);
		WELCOMED(first, world, 1);
		WELCOMED(second, world, 1);
		struct end *stays = leaves == 0 ? &second : &first;

		hold();
		REGISTER(&first, "one u32 x");
		REGISTER(&second, "one u32 x");
		break_connection(leaves == 0 ? &first : &second);
		hold_no_more();
		expect_granted(stays);
		ck_assert_int_ge(stays->stream, 0);
		ck_assert_uint_eq(query(stays).events, 1);
		ck_assert_uint_eq(query(stays).leases, 1);
	}
}

TEST(when_all_leave_while_the_stream_is_being_made_nothing_is_left)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	hold();
	REGISTER(&first, "one u32 x");
	REGISTER(&second, "one u32 x", "two u32 x");
	break_connection(&first);
	break_connection(&second);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	hold_no_more();
	expect_all_gone(world);
}

/* --- who leaves --- */

TEST(a_client_that_leaves_while_it_registers_leaves_a_dead_event_on_the_others_stream)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	get(&first, "one u32 x");
	get(&second, "one u32 x");
	hold();
	REGISTER(&second, "two u32 x");
	break_connection(&second);
	hold_no_more();
	ck_assert_uint_eq(query(&first).events, 2);
	ck_assert_uint_eq(query(&first).lingering, 1);
	ck_assert_uint_eq(query(&first).connections, 1);
	ck_assert_uint_eq(script.asked[KERNEL_STILL_OPEN], 0);
	/* It is still there, and costs no more. */
	get(&first, "two u32 x");
	ck_assert_uint_eq(query(&first).lingering, 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

TEST(a_stream_ends_when_the_last_of_its_clients_has_left_and_no_copy_is_open)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	get(&first, "event u32 x");
	get(&second, "event u32 x");
	first.stream = fd_close(first.stream);
	end_hang_up(&first);
	look_at_lingering(world);
	ck_assert_uint_eq(script.asked[KERNEL_STILL_OPEN], 0);
	ck_assert_uint_eq(query(&second).lingering, 0);
	end_hang_up(&second);
	ck_assert_uint_ge(script.asked[KERNEL_STILL_OPEN], 1);
	ck_assert(look_at_lingering(world));
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(count_fake_streams(), 1);
	second.stream = fd_close(second.stream);
	ck_assert(!look_at_lingering(world));
	expect_all_gone(world);
}

/* One that lingers is nobody's any more: nothing could be registered on it. */
TEST(who_comes_when_all_have_left_gets_a_new_stream_and_the_same_charge)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	struct answer one = get(&first, "event u32 x");

	end_hang_up(&first);
	ck_assert(look_at_lingering(world));
	{
		WELCOMED(second, world, 1);
		struct answer other = get(&second, "event u32 x");

		ck_assert_uint_ne(other.stream, one.stream);
		ck_assert_uint_eq(other.bit, one.bit);
		ck_assert_uint_eq(query(&second).events, 1);
		first.stream = fd_close(first.stream);
		look_at_lingering(world);
		ck_assert_uint_eq(query(&second).events, 1);
		ck_assert_uint_eq(count_fake_streams(), 1);
	}
}

TEST(who_releases_its_last_event_loses_its_share_and_gets_the_file_again)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one = get(&first, "one u32 x"), again;

	get(&second, "one u32 x");
	get(&second, "two u32 x");
	release(&second, second.bit);
	ck_assert_ptr_nonnull(LIST_FIRST(&second.client->holder.shares));
	release(&second, one.bit);
	ck_assert_ptr_null(LIST_FIRST(&second.client->holder.shares));
	second.stream = fd_close(second.stream);
	again = get(&second, "one u32 x");
	expect_same_answer(&one, &again);
	ck_assert_int_ge(second.stream, 0);
	ck_assert(is_same_file(first.stream, second.stream));
	ck_assert_uint_eq(query(&first).events, 2);
	ck_assert_uint_eq(query(&first).lingering, 1);
}

TEST(who_released_all_and_was_alone_gets_a_new_stream)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer one = get(&end, "event u32 x"), again;

	release(&end, one.bit);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).lingering, 1);
	again = get(&end, "event u32 x");
	ck_assert_uint_ne(again.stream, one.stream);
	look_at_lingering(world);
	ck_assert_uint_eq(query(&end).events, 1);
	ck_assert_uint_eq(query(&end).lingering, 0);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

/* --- generations --- */

static void describe(char *ret, size_t size, unsigned i)
{
	snprintf(ret, size, "dead_%u u32 x", i);
}

/* Leaves that many dead events on the client's stream. */
static void leave_dead(struct end *end, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char description[TEXT_MAX];

		describe(description, sizeof(description), i);
		release(end, get(end, description).bit);
	}
}

TEST(a_stream_with_too_many_dead_events_serves_those_who_have_it_and_nobody_new)
{
	GUARDED(world);
	WELCOMED(old, world, 1);
	WELCOMED(just_in_time, world, 1);
	WELCOMED(late, world, 1);
	WELCOMED(later, world, 1);
	struct answer answer = get(&old, "event u32 x"), other;
	unsigned calls;

	leave_dead(&old, STREAM_DEAD_MIN);
	ck_assert_uint_eq(get(&just_in_time, "event u32 x").stream, answer.stream);
	get(&old, "one_more u32 x");
	release(&old, old.bit);
	other = get(&late, "event u32 x");
	ck_assert_uint_ne(other.stream, answer.stream);
	ck_assert_uint_eq(other.bit, answer.bit);
	ck_assert(!is_same_file(old.stream, late.stream));
	ck_assert_uint_eq(get(&later, "event u32 x").stream, other.stream);
	/* What they have they have. */
	calls = count_calls();
	other = get(&old, "event u32 x");
	expect_same_answer(&answer, &other);
	other = get(&just_in_time, "event u32 x");
	expect_same_answer(&answer, &other);
	ck_assert_uint_eq(count_calls(), calls);
	ck_assert_uint_eq(world->daemon->registry.machine.common, STREAM_DEAD_MIN + 2);
}

TEST(an_old_clients_new_event_stands_on_a_new_stream_and_it_has_both)
{
	GUARDED(world);
	WELCOMED(old, world, 1);
	_cleanup_(fd_closep) int first = -1;
	struct answer one = get(&old, "event u32 x"), other, again;

	leave_dead(&old, STREAM_DEAD_MIN + 1);
	first = fd_steal(&old.stream);
	other = get(&old, "new u32 x");
	ck_assert_uint_ne(other.stream, one.stream);
	ck_assert_int_ge(old.stream, 0);
	ck_assert(!is_same_file(first, old.stream));
	again = get(&old, "event u32 x");
	expect_same_answer(&one, &again);
	/* With the last event of the first stream it ends, and with it all that was dead. */
	fd_close(fd_steal(&first));
	release(&old, one.bit);
	look_at_lingering(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

TEST(a_stream_with_more_live_events_than_dead_ones_goes_on)
{
	GUARDED(world);
	WELCOMED(old, world, 1);
	WELCOMED(other, world, 1);
	uint32_t stream = 0;

	for (unsigned i = 0; i < STREAM_DEAD_MIN + 6; i++) {
		char description[TEXT_MAX];

		snprintf(description, sizeof(description), "live_%u u32 x", i);
		stream = get(&old, description).stream;
	}
	leave_dead(&old, STREAM_DEAD_MIN + 6);
	ck_assert_uint_eq(get(&other, "live_1 u32 x").stream, stream);
	release(&other, other.bit);
	get(&old, "straw u32 x");
	release(&old, old.bit);
	ck_assert_uint_ne(get(&other, "live_1 u32 x").stream, stream);
}

/* That many new ones, in one batch; the stream on which they are. */
static uint32_t get_many(struct end *end, unsigned first, unsigned n)
{
	static char descriptions[WIRE_BATCH_MAX][TEXT_MAX];
	static const char *batch[WIRE_BATCH_MAX];
	static struct answer answers[WIRE_BATCH_MAX];

	for (unsigned i = 0; i < n; i++) {
		snprintf(descriptions[i], sizeof(descriptions[i]), "many_%u u32 x", first + i);
		batch[i] = descriptions[i];
	}
	say_register(end, 0, batch, n);
	expect_answers(end, answers, n);
	for (unsigned i = 0; i < n; i++)
		if (answers[i].refusal != REFUSAL_NONE || answers[i].stream != answers[0].stream)
			ck_abort_msg("event %u is on stream %u, not %u", i, answers[i].stream, answers[0].stream);
	return answers[0].stream;
}

TEST(a_stream_takes_so_many_events_and_the_next_goes_to_a_new_one)
{
	GUARDED(world);
	WELCOMED(one_by_one, world, 1);
	WELCOMED(at_once, world, 2);
	uint32_t stream = get_many(&one_by_one, 0, STREAM_EVENTS_MAX - 1), other;

	ck_assert_uint_eq(get_many(&one_by_one, STREAM_EVENTS_MAX - 1, 1), stream);
	other = get_many(&one_by_one, STREAM_EVENTS_MAX, 1);
	ck_assert_uint_ne(other, stream);
	ck_assert_uint_eq(get_many(&one_by_one, STREAM_EVENTS_MAX + 1, 1), other);
	/* Whatever is there is there. */
	ck_assert_uint_eq(get_many(&one_by_one, 0, STREAM_EVENTS_MAX), stream);
	/* One batch is not divided. */
	stream = get_many(&at_once, 0, STREAM_EVENTS_MAX - 1);
	ck_assert_uint_eq(get_many(&at_once, STREAM_EVENTS_MAX, 200), stream);
	ck_assert_uint_ne(get_many(&at_once, STREAM_EVENTS_MAX + 200, 200), stream);
}

/* --- the guard goes --- */

TEST(without_the_guard_each_client_gets_a_stream_of_its_own_and_that_is_said_once)
{
	GUARDED(world);
	WELCOMED(before, world, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer old = get(&before, "event u32 x"), one, other, again;
	struct listener_of_logs logs = logs_begin();

	set_guard(world, false);
	one = get(&first, "event u32 x");
	other = get(&second, "event u32 x");
	again = get(&first, "more u32 x");
	ck_assert_uint_eq(logs_end(&logs, "the guard is gone: data files are no longer shared"), 1);
	ck_assert(!world->daemon->registry.guarded);
	ck_assert_uint_ne(one.stream, old.stream);
	ck_assert_uint_ne(other.stream, old.stream);
	ck_assert_uint_ne(one.stream, other.stream);
	ck_assert_uint_eq(again.stream, one.stream);
	ck_assert(!is_same_file(first.stream, second.stream));
	ck_assert(!is_same_file(first.stream, before.stream));
	ck_assert_uint_eq(one.bit, old.bit);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	/* Who had one keeps it. */
	again = get(&before, "event u32 x");
	expect_same_answer(&old, &again);
}

TEST(root_of_a_container_that_was_welcomed_with_a_guard_gets_no_file_without)
{
	GUARDED(world);
	WELCOMED(root, world, 1);
	WELCOMED(other, world, 1);

	get(&other, "event u32 x");
	root.client->holder.uid = 0;
	tenant_of(&root)->is_contained = true;
	set_guard(world, false);
	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&root, "event u32 x");
		expect_refused(&root, REFUSAL_NOT_PERMITTED);
		ck_assert_int_eq(root.stream, -1);
		ck_assert_uint_eq(query(&root).leases, 0);
	}
	set_guard(world, true);
	get(&root, "event u32 x");
	ck_assert_int_ge(root.stream, 0);
}

TEST(when_the_guard_is_back_streams_are_shared_again)
{
	GUARDED(world);
	WELCOMED(before, world, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED_AS(third, world, 1, getuid() + 1);
	WELCOMED_AS(fourth, world, 1, getuid() + 1);
	struct listener_of_logs logs = logs_begin();

	set_guard(world, false);
	get(&before, "event u32 x");
	ck_assert(!world->daemon->registry.guarded);
	set_guard(world, true);
	get(&first, "event u32 x");
	ck_assert(world->daemon->registry.guarded);
	/* Made without it, and so not to be shared. */
	ck_assert(!is_same_file(before.stream, first.stream));
	get(&second, "event u32 x");
	get(&third, "event u32 x");
	ck_assert_uint_eq(get(&fourth, "event u32 x").stream, third.heard.message.stream[0]);
	ck_assert_uint_eq(logs_end(&logs, "the guard is back"), 1);
}

/* Nor is it given to one of those who have built on it: what the others registered would be there, too. */
TEST(a_stream_that_turns_out_unguarded_is_given_to_who_is_alone)
{
	for (unsigned n = 1; n <= 4; n++) {
		GUARDED(world);
		struct end *end[4];

		for (unsigned i = 0; i < n; i++) {
			end[i] = malloc(sizeof(*end[i]));
			*end[i] = end_welcomed(world, 1);
		}
		hold();
		for (unsigned i = 0; i < n; i++)
			REGISTER(end[i], "one u32 x", "two u32 x", "one u32 x");
		set_guard(world, false);
		hold_no_more();
		for (unsigned i = 0; i < n; i++) {
			struct answer answer[3];

			expect_answers(end[i], answer, 3);
			ck_assert_uint_eq(answer[1].refusal, answer[0].refusal);
			ck_assert_uint_eq(answer[2].refusal, answer[0].refusal);
			ck_assert_uint_eq(answer[0].refusal, n == 1 ? REFUSAL_NONE : REFUSAL_TROUBLE);
			ck_assert_int_eq(end[i]->stream >= 0, n == 1);
		}
		ck_assert_uint_eq(count_fake_streams(), n == 1);
		/* Whoever asks again gets one. */
		for (unsigned i = 0; i < n; i++)
			get(end[i], "one u32 x");
		for (unsigned i = 1; i < n; i++)
			ck_assert(!is_same_file(end[0]->stream, end[i]->stream));
		for (unsigned i = 0; i < n; i++) {
			end_deinit(end[i]);
			free(end[i]);
		}
	}
}

/* Proved when it is chosen, and again when it leaves. */
TEST(a_guard_that_goes_while_the_kernel_is_asked_refuses_what_would_be_shared)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer old = get(&first, "one u32 x"), answer[4];

	hold();
	REGISTER(&second, "one u32 x", "two u32 x", "two u32 x", "bad long x");
	set_guard(world, false);
	hold_no_more();
	expect_answers(&second, answer, 4);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(answer[i].refusal, REFUSAL_TROUBLE);
		ck_assert_uint_gt(answer[i].length, 0);
	}
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_BAD_DESCRIPTION);
	ck_assert_int_eq(second.stream, -1);
	ck_assert_uint_eq(query(&second).leases, 0);
	ck_assert_uint_eq(query(&first).leases, 1);
	/* What was registered stays so until that stream ends. */
	ck_assert_uint_eq(query(&first).events, 2);
	ck_assert_uint_eq(query(&first).lingering, 1);
	ck_assert_uint_ne(get(&second, "two u32 x").stream, old.stream);
	ck_assert_uint_eq(query(&first).events, 2);
	ck_assert_uint_eq(query(&first).lingering, 0);
}

/* One who waits for an answer while the others have theirs, leave, and take the file along. */
TEST(a_file_that_the_daemon_has_closed_meanwhile_is_refused_in_words)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);

	get(&first, "one u32 x");
	hold();
	REGISTER(&second, "two u32 x");
	REGISTER(&third, "three u32 x");
	set_guard(world, false);
	answer_one();
	expect_refused(&second, REFUSAL_TROUBLE);
	get(&first, "one u32 x");
	end_hang_up(&first);
	hold_no_more();
	expect_refused(&third, REFUSAL_TROUBLE);
	ck_assert_int_eq(third.stream, -1);
	get(&third, "three u32 x");
	ck_assert_int_ge(third.stream, 0);
}

TEST(with_require_nothing_leaves_without_the_guard_and_nothing_is_left)
{
	REQUIRED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct listener_of_logs logs = logs_begin();
	struct answer answer[3];

	set_guard(world, false);
	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&first, "one u32 x", "two u32 x", "one u32 x");
		expect_answers(&first, answer, 3);
		for (size_t j = 0; j < 3; j++) {
			ck_assert_uint_eq(answer[j].refusal, REFUSAL_TROUBLE);
			ck_assert_uint_gt(answer[j].length, 0);
		}
		ck_assert_int_eq(first.stream, -1);
		expect_no_charges(world);
		ck_assert_ptr_null(world->daemon->registry.streams);
		ck_assert_uint_eq(count_fake_streams(), 0);
	}
	ck_assert_uint_eq(logs_end(&logs, "the guard is gone: data files are not given out any more"), 1);
	set_guard(world, true);
	get(&first, "one u32 x");
	ck_assert(world->daemon->registry.guarded);
	get(&second, "one u32 x");
	get(&third, "one u32 x");
	ck_assert(is_same_file(second.stream, third.stream));
}

TEST(with_require_all_who_wait_for_a_stream_without_the_guard_are_refused)
{
	REQUIRED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct answer answer[2];

	hold();
	REGISTER(&first, "one u32 x");
	REGISTER(&second, "two u32 x");
	REGISTER(&third, "one u32 x", "three u32 x");
	set_guard(world, false);
	hold_no_more();
	expect_refused(&first, REFUSAL_TROUBLE);
	expect_refused(&second, REFUSAL_TROUBLE);
	expect_answers(&third, answer, 2);
	ck_assert_uint_eq(answer[0].refusal, REFUSAL_TROUBLE);
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_TROUBLE);
	look_at_lingering(world);
	expect_no_charges(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
}

TEST(with_require_who_has_a_stream_keeps_it_and_nobody_else_gets_it)
{
	REQUIRED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one = get(&first, "event u32 x"), again;

	set_guard(world, false);
	REGISTER(&second, "event u32 x");
	expect_refused(&second, REFUSAL_TROUBLE);
	ck_assert_int_eq(second.stream, -1);
	again = get(&first, "event u32 x");
	expect_same_answer(&one, &again);
	ck_assert_uint_eq(query(&first).events, 1);
	ck_assert_uint_eq(query(&second).leases, 0);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

/* It says that it is guarded, and is not: found out with the first file. */
TEST(a_kernel_that_is_mistaken_about_its_guard_is_not_believed)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	fake.guard = false;
	get(&first, "event u32 x");
	get(&second, "event u32 x");
	ck_assert(!is_same_file(first.stream, second.stream));
	ck_assert(!world->daemon->registry.guarded);
}

TEST(a_kernel_that_never_had_a_guard_gives_each_client_its_own)
{
	UNGUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one = get(&first, "event u32 x"), other = get(&second, "event u32 x");

	ck_assert_uint_ne(one.stream, other.stream);
	ck_assert_uint_eq(one.bit, other.bit);
	ck_assert(!is_same_file(first.stream, second.stream));
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	/* The client's copy is the only one. */
	for (const struct stream *stream = world->daemon->registry.streams; stream; stream = stream->by_number.next)
		ck_assert_int_eq(stream->fd, -1);
}

/* --- strangers --- */

/* Whoever has that stream, past the daemon. */
static void register_on(uint32_t number)
{
	struct fake_stream *stream = find_stream(number);

	if (!stream)
		ck_abort_msg("there is no stream %u", number);
	stream->self_registered = true;
}

static uint64_t refusals(const struct end *end)
{
	return tenant_of(end)->refusals[REFUSAL_SELF_REGISTERED];
}

TEST(who_registers_by_himself_is_cut_off_and_nobody_else)
{
	UNGUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 2);
	uint32_t stream = get(&first, "event u32 x").stream;

	get(&second, "event u32 x");
	get(&other, "event u32 x");
	ck_assert(streams_probe(&world->daemon->registry));
	ck_assert_uint_eq(script.asked[KERNEL_CLEAN], 3);
	expect_silence(&first);
	register_on(stream);
	streams_probe(&world->daemon->registry);
	ck_assert_uint_eq(refusals(&second), 1);
	expect_cut(&first, REFUSAL_SELF_REGISTERED);
	expect_silence(&second);
	expect_silence(&other);
	ck_assert_uint_eq(refusals(&other), 0);
	/* Known and gone: not asked about again. */
	turn(world);
	script.asked[KERNEL_CLEAN] = 0;
	streams_probe(&world->daemon->registry);
	ck_assert_uint_eq(script.asked[KERNEL_CLEAN], 2);
	ck_assert_uint_eq(refusals(&second), 1);
}

/* The guard went while they shared it: it may be any of them. */
TEST(all_who_share_a_file_on_which_a_stranger_registered_are_cut_off_and_it_counts_once)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	WELCOMED(late, world, 1);
	uint32_t stream = get(&first, "event u32 x").stream;

	get(&second, "event u32 x");
	get(&other, "event u32 x");
	set_guard(world, false);
	get(&late, "event u32 x");
	register_on(stream);
	streams_probe(&world->daemon->registry);
	ck_assert_uint_eq(refusals(&other), 1);
	expect_cut(&first, REFUSAL_SELF_REGISTERED);
	expect_cut(&second, REFUSAL_SELF_REGISTERED);
	expect_silence(&other);
	expect_silence(&late);
	ck_assert_uint_eq(refusals(&other), 1);
}

/* Nobody waits ten seconds for the next look. */
TEST(a_stranger_is_noticed_when_he_registers_more_and_when_he_leaves)
{
	UNGUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(witness, world, 1);

	register_on(get(&first, "event u32 x").stream);
	register_on(get(&second, "event u32 x").stream);
	say_register(&first, 0, (const char *const[]){ "more u32 x" }, 1);
	ck_assert_uint_eq(refusals(&witness), 1);
	expect_cut(&first, REFUSAL_SELF_REGISTERED);
	end_hang_up(&second);
	ck_assert_uint_eq(refusals(&witness), 2);
	expect_silence(&witness);
}

TEST(an_answer_about_a_stranger_that_comes_when_his_stream_has_ended_finds_nobody)
{
	UNGUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(witness, world, 1);
	struct batch *clean;

	register_on(get(&end, "event u32 x").stream);
	hold();
	streams_probe(&world->daemon->registry);
	clean = TAILQ_FIRST(&script.under_way);
	carry_out_batch(clean);
	ck_assert_int_eq(clean->calls[0].result, KERNEL_E_SELF_REGISTERED);
	TAILQ_REMOVE(&script.under_way, clean, entry);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	refuse(KERNEL_CLEAN, KERNEL_OK, 0, 1);
	hold_no_more();
	ck_assert_uint_eq(count_fake_streams(), 0);
	TAILQ_INSERT_TAIL(&script.under_way, clean, entry);
	script.n_under_way++;
	answer_all();
	ck_assert_uint_eq(refusals(&witness), 0);
	refuse(0, 0, 0, 0);
}

TEST(where_the_guard_holds_nobody_is_probed)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);

	register_on(get(&first, "event u32 x").stream);
	get(&second, "event u32 x");
	get(&second, "more u32 x");
	ck_assert(!streams_probe(&world->daemon->registry));
	end_hang_up(&first);
	end_hang_up(&second);
	ck_assert_uint_eq(script.asked[KERNEL_CLEAN], 0);
}

TEST(an_answer_that_nobody_expected_cuts_nobody_off)
{
	static const int results[] = { KERNEL_E_NO_SUCH, -EIO, KERNEL_E_GONE, 4711 };
	UNGUARDED(world);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		refuse(KERNEL_CLEAN, results[i], 0, 1);
		streams_probe(&world->daemon->registry);
		expect_silence(&end);
	}
	ck_assert_uint_eq(refusals(&end), 0);
}

/* The timer that looks runs as soon as there is something to look at. */
TEST(files_that_lost_their_guard_are_looked_after)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED_AS(second, world, 1, getuid() + 1);

	get(&first, "event u32 x");
	ck_assert(!ev_is_active(&world->daemon->registry.w_probe));
	set_guard(world, false);
	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
	REGISTER(&second, "event u32 x");
	expect_refused(&second, REFUSAL_TROUBLE);
	{
		WELCOMED(third, world, 1);

		refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
		REGISTER(&third, "event u32 x");
		expect_refused(&third, REFUSAL_TROUBLE);
	}
	ck_assert(!world->daemon->registry.guarded);
	ck_assert(ev_is_active(&world->daemon->registry.w_probe));
}

/* --- flags --- */

TEST(one_name_with_two_formats_is_two_events_with_two_charges)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct answer one = get_with(&first, REGISTER_MULTI_FORMAT, "event u32 x");
	struct answer other = get_with(&first, REGISTER_MULTI_FORMAT, "event u64 x"), again;
	unsigned calls = count_calls();

	ck_assert_uint_ne(one.bit, other.bit);
	ck_assert_uint_ne(one.index, other.index);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	ck_assert_uint_eq(query(&first).events, 2);
	again = get_with(&second, REGISTER_MULTI_FORMAT, "event u64 x");
	expect_same_answer(&other, &again);
	ck_assert_uint_eq(count_calls(), calls);
	/* Of one format it is a third; with other fields it is one of the many. */
	get(&second, "event u32 x");
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
	again = get(&first, "event u64 x");
	expect_same_answer(&other, &again);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(fake.slot[i].flags, i < 2 ? KERNEL_MULTI_FORMAT : 0);
	/* Where there are no fields the name is all that there is to it. */
	ck_assert_uint_ne(get_with(&first, REGISTER_MULTI_FORMAT, "bare").bit, get(&first, "bare").bit);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 5);
}

static unsigned count_multi_slots(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < SLOTS; i++)
		n += fake.slot[i].there && fake.slot[i].flags & KERNEL_MULTI_FORMAT;
	return n;
}

TEST(a_late_comer_with_other_fields_is_multi_format)
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
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2);
	/* In the same tenant, too: an old program and a new one may run side by side. */
	get(&first, "event u16 x");
	ck_assert_uint_eq(count_multi_slots(), 2);
	check_books(world->daemon);
	world_restart(world);
	check_books(world->daemon);
}

TEST(a_name_that_the_kernel_has_is_asked_for_as_multi)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer answer[3], again;

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 1, 1);
	REGISTER(&end, "one u32 x", "two u32 x", "three u32 x");
	expect_answers(&end, answer, 3);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(answer[i].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 4);
	ck_assert_uint_eq(count_multi_slots(), 1);
	ck_assert_uint_eq(query(&end).events, 3);
	again = get(&end, "one u32 x");
	expect_same_answer(&answer[0], &again);
	check_books(world->daemon);
}

TEST(a_name_that_is_taken_twice_is_refused)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer answer[2];

	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 3);
	REGISTER(&end, "one u32 x", "two u32 x");
	expect_answers(&end, answer, 2);
	ck_assert_uint_eq(answer[0].refusal, REFUSAL_NAME_TAKEN);
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 4);
	ck_assert_uint_eq(query(&end).events, 1);
	check_books(world->daemon);
}

TEST(many_taken_names_are_asked_for_again_in_parts)
{
	enum { NAMES = 120, PART = 50 };
	GUARDED(world);
	WELCOMED(end, world, 1);
	static struct answer answer[NAMES];
	static char text[NAMES][16];
	const char *names[NAMES];

	for (size_t i = 0; i < NAMES; i++) {
		snprintf(text[i], sizeof(text[i]), "n%zu u32 x", i);
		names[i] = text[i];
	}
	hold();
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, NAMES);
	say_register(&end, 0, names, NAMES);
	for (unsigned batches = 0; script.n_under_way > 0; batches++) {
		ck_assert_uint_le(TAILQ_FIRST(&script.under_way)->n, PART + 1);
		ck_assert_uint_lt(batches, 10);
		answer_one();
		turn(world);
	}
	hold_no_more();
	expect_answers(&end, answer, NAMES);
	for (size_t i = 0; i < NAMES; i++)
		ck_assert_uint_eq(answer[i].refusal, REFUSAL_NONE);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 2 * NAMES);
	ck_assert_uint_eq(count_multi_slots(), NAMES);
	check_books(world->daemon);
}

TEST(a_client_that_leaves_between_the_two_gets_neither)
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
		ck_assert_uint_eq(script.asked[KERNEL_REGISTER], left == 0 ? 1 : 3);
		expect_no_charges(world);
		check_books(world->daemon);
	}
}

TEST(a_late_comer_may_not_where_policy_says_so)
{
	GUARDED(world);
	world->daemon->registry.tenant_is_process = false;
	world_adopt(world, "[/**]\nAllowMultiFormat=no\n");
	WELCOMED(first, world, 1);

	get(&first, "event u32 x");
	REGISTER(&first, "event u64 x");
	expect_refused(&first, REFUSAL_NAME_TAKEN);
	refuse(KERNEL_REGISTER, KERNEL_E_NAME_TAKEN, 0, 1);
	REGISTER(&first, "kernels u64 x");
	expect_refused(&first, REFUSAL_NAME_TAKEN);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
}

TEST(one_name_with_other_fields_is_taken)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(other, world, 2);

	script.kernel->facts.flags &= (uint16_t)~KERNEL_MULTI_FORMAT;

	get(&first, "event u32 x");
	REGISTER(&first, "event u64 x");
	expect_refused(&first, REFUSAL_NAME_TAKEN);
	REGISTER(&other, "event u64 x");
	expect_refused(&other, REFUSAL_NAME_TAKEN);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(query(&other).events, 0);
}

TEST(a_flag_that_the_kernel_does_not_know_is_refused_and_costs_nothing)
{
	static const uint16_t flags[] = { REGISTER_PERSIST, REGISTER_MULTI_FORMAT, 1 << 2, 1 << 15 };
	GUARDED(world);
	WELCOMED(end, world, 1);

	script.kernel->facts.flags = 0;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		REGISTER_WITH(&end, flags[i], "event u32 x");
		expect_refused(&end, REFUSAL_KERNEL_TOO_OLD);
		ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 0);
		expect_no_charges(world);
	}
}

TEST(what_persists_is_charged_for_as_long_as_the_daemon_lives)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct tenant *tenant = tenant_of(&end);
	struct answer answer = get_with(&end, REGISTER_PERSIST, "event u32 x");

	ck_assert_uint_eq(fake.slot[0].flags, KERNEL_PERSIST);
	get_with(&end, REGISTER_PERSIST, "event u32 x");
	get(&end, "passing u32 x");
	release(&end, answer.bit);
	ck_assert_uint_eq(query(&end).events, 2);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	ck_assert(!look_at_lingering(world));
	ck_assert_ptr_null(world->daemon->registry.streams);
	ck_assert_uint_eq(count_fake_streams(), 0);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	ck_assert_uint_eq(tenant->level->own.held, 1);
	ck_assert_uint_eq(tenant->lingering, 1);
	{
		WELCOMED(next, world, 1);

		get(&next, "event u32 x");
		ck_assert_uint_eq(query(&next).events, 1);
		ck_assert_uint_eq(query(&next).lingering, 0);
	}
	world_end(world);
}

TEST(what_was_refused_does_not_persist)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	refuse(KERNEL_REGISTER, KERNEL_E_UNSUPPORTED, 0, 1);
	REGISTER_WITH(&end, REGISTER_PERSIST, "event u32 x");
	expect_refused(&end, REFUSAL_KERNEL_TOO_OLD);
	expect_no_charges(world);
}

/* The kernel is asked although the client has it, on a stream that serves nobody new: the client keeps the one that it has. */
TEST(what_shall_persist_after_all_stays_where_the_client_has_it)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	struct answer one = get(&end, "event u32 x"), again;
	unsigned calls;

	leave_dead(&end, STREAM_DEAD_MIN + 1);
	calls = script.asked[KERNEL_REGISTER];
	again = get_with(&end, REGISTER_PERSIST, "event u32 x");
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], calls + 1);
	expect_same_answer(&one, &again);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	look_at_lingering(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 1);
	world_end(world);
}

/* --- what admins see --- */

TEST(events_are_listed_with_who_holds_them)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED_AS(other, world, 2, 4711);
	ADMIN(admin, world);
	struct cursor rows, row, holders, holder;
	struct row_field field;

	ask_for_rows(&admin, KIND_EVENTS, 0);
	get(&first, "one u32 x");
	get(&second, "one u32 x");
	get(&other, "one u32 x");
	get_with(&other, REGISTER_MULTI_FORMAT, "two u64 y");
	release(&other, other.bit);
	rows = ask_for_rows(&admin, KIND_EVENTS, 2);
	row = next_row(&rows);
	expect_string(row, "event", "one");
	expect_string(row, "description", "one u32 x");
	ck_assert_uint_eq(row_get_u64(row, "holders_total"), 3);
	ck_assert_uint_eq(row_get_u64(row, "tenants"), 2);
	ck_assert_uint_eq(row_get_u64(row, "lingering"), 0);
	ck_assert_uint_eq(row_get_u64(row, "multi_format"), 0);
	/* That is the kernel's to say. */
	ck_assert(!row_find(row, "on", &field));
	ck_assert(!row_find(row, "records", &field));
	holders = holders_of(row);
	ck_assert_uint_eq(count_items(holders), 3);
	ck_assert_int_eq(row_next_item(&holders, &holder), 1);
	expect_string(holder, "tenant", "process:2:program");
	expect_string(holder, "comm", "program");
	ck_assert_uint_eq(row_get_u64(holder, "pid"), 2);
	ck_assert_uint_eq(row_get_u64(holder, "uid"), 4711);
	row = next_row(&rows);
	expect_string(row, "event", "two");
	expect_string(row, "description", "two u64 y");
	ck_assert_uint_eq(row_get_u64(row, "multi_format"), 1);
	ck_assert_uint_eq(row_get_u64(row, "holders_total"), 0);
	ck_assert_uint_eq(row_get_u64(row, "lingering"), 1);
	ck_assert_uint_eq(count_items(holders_of(row)), 0);
}

/* More than one packet of them, in the order in which they came, whatever went meanwhile. */
TEST(all_events_are_listed_once_in_the_order_in_which_they_came)
{
	enum { EVENTS = 900 };
	GUARDED(world);
	WELCOMED(end, world, 1);
	ADMIN(admin, world);
	unsigned listed = 0;
	bool more = true;

	for (unsigned i = 0; i < EVENTS; i++) {
		char description[TEXT_MAX];

		describe(description, sizeof(description), i);
		get(&end, description);
	}
	say_simply(&admin, KIND_EVENTS);
	while (more) {
		const struct message *message = expect(&admin, KIND_ROWS);
		struct cursor rows, row;
		uint16_t count;

		more = message->flags & WIRE_MORE;
		ck_assert_int_eq(decode_rows(message->body, &count, &rows), 0);
		while (rows_next(&rows, &row)) {
			char name[TEXT_MAX], expected[TEXT_MAX];

			row_get_string(row, "event", name, sizeof(name));
			snprintf(expected, sizeof(expected), "dead_%u", listed++);
			if (!streq(name, expected))
				ck_abort_msg("%s, not %s", name, expected);
		}
	}
	ck_assert_uint_eq(listed, EVENTS);
}

TEST(who_wants_to_trace_is_sent_to_the_kernel)
{
	GUARDED(world);
	ADMIN(admin, world);
	struct string_item sentence;
	uint32_t refusal;

	for (unsigned kind = KIND_TRACE; kind <= KIND_TAIL; kind++) {
		struct packet packet = begin(&admin, (uint16_t)kind);
		size_t mark = encode_strings(&packet, 0);

		encode_string(&packet, 0, "*", 1);
		encode_count(&packet, mark, 1);
		say(&admin, &packet);
		ck_assert_int_eq(decode_error(expect(&admin, KIND_REFUSED)->body, &refusal, &sentence), 0);
		ck_assert_uint_eq(refusal, REFUSAL_NOT_THE_TRACER);
	}
}

TEST(the_status_says_whether_the_guard_holds)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);
	struct cursor rows = ask_for_rows(&admin, KIND_STATUS, 1), row = next_row(&rows);

	expect_string(row, "backend", "enable-address");
	expect_string(row, "guard", "on");
	set_guard(world, false);
	get(&end, "event u32 x");
	rows = ask_for_rows(&admin, KIND_STATUS, 1);
	row = next_row(&rows);
	expect_string(row, "guard", "off: it was there, and is gone");
	ck_assert_uint_eq(row_get_u64(row, "streams"), 1);
}

/* --- pages --- */

TEST(a_bit_that_the_kernel_changes_is_told_to_those_who_watch)
{
	GUARDED(world);
	WELCOMED(end, world, 1);
	WELCOMED(silent, world, 1);
	uint32_t bit = get(&end, "event u32 x").bit;
	struct wire_changed changed;
	struct cursor bits;
	uint8_t *page;

	get(&silent, "event u32 x");
	say_simply(&end, KIND_WATCH);
	expect(&end, KIND_WATCHING);
	page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fake.page_fd[0], 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	page[bit / 8] |= (uint8_t)(1u << bit % 8);
	page[WIRE_PAGE_BYTES - 1] = 0xff; /* nobody's */
	while (!hear(&end))
		ev_run(world->daemon->loop, EVRUN_ONCE);
	ck_assert_uint_eq(end.heard.message.kind, KIND_CHANGED);
	ck_assert_int_eq(decode_changed(end.heard.message.body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.count, 1);
	expect_silence(&silent);
	munmap(page, WIRE_PAGE_BYTES);
}

/* --- the end --- */

TEST(a_daemon_that_ends_with_streams_shared_and_being_made_ends_well)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED_AS(third, world, 1, getuid() + 1);
	WELCOMED_AS(fourth, world, 1, getuid() + 1);

	get(&first, "one u32 x");
	get(&second, "one u32 x");
	hold();
	REGISTER(&second, "two u32 x");
	REGISTER_WITH(&third, REGISTER_PERSIST, "one u32 x");
	REGISTER(&fourth, "one u32 x", "three u32 x");
	end_hang_up(&first);
	world_end(world);
	ck_assert_uint_eq(script.n_under_way, 0);
}

/* --- memory --- */

static void live_a_little(struct world *world)
{
	END(first, world, 1);
	END(second, world, 1);

	first.may_be_cut = true;
	second.may_be_cut = true;
	say_hello(&first);
	say_hello(&second);
	for (unsigned i = 0; i < 2; i++) {
		REGISTER(&first, "one u32 x", "bad long x");
		REGISTER(&second, "one u32 x", "two u32 x");
		say_release(&second, 1);
		REGISTER(&first, "two u32 x");
		say_release(&first, 1);
		while (hear(&first) || hear(&second))
			;
	}
}

/* The first that finds no memory is another one each time, until all find some. */
TEST(whatever_finds_no_memory_costs_nothing_and_the_next_client_finds_everything_well)
{
	ev_set_allocator(evs_own_memory);
	for (unsigned mode = 0; mode < 4; mode++) {
		_cleanup_(world_leave) struct world *world = world_on("prefer", mode / 2);
		long n;

		memory_comes_back = mode % 2;
		script.kernel->ops = &fake_ops;
		for (n = 0; n < 1000; n++) {
			bool enough;

			allocations_given = n;
			live_a_little(world);
			enough = memory_comes_back ? allocations_given >= 0 : allocations_given > 0;
			allocations_given = -1;
			expect_all_gone(world);
			if (enough)
				break;
		}
		ck_assert_int_gt(n, 20);
		ck_assert_int_lt(n, 1000);
	}
}

/* --- histories --- */

enum {
	ACTORS = 8,
	FILES = 4, /* that one client can have at a time, here */
	COPIES = 6,
	HISTORIES = 4,
	STEPS = 2000,
};

static const char *const descriptions[] = {
	"one u32 x", "two u32 x", "three u32 x", "four u32 x", "five u32 x", "one u64 y", "no long x",
};

/* What whole services begin with, the last one or two of them left out: that one is refused now and then. */
static const char *const usual[] = {
	"six u32 x", "three u32 x", "seven u32 x", "eight u32 x", "nine u32 x",
	"ten u32 x", "eleven",	    "two u32 x",   "twelve",	  "one u64 y",
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
	unsigned shared;   /* files that a second client got */
	unsigned together; /* steps with a client that had company in its bundle */
	unsigned kept;	   /* steps with a file that nobody has */
	unsigned flips;
};

static void actor_leaves(struct history *history, struct actor *actor)
{
	int *copy = &history->copy[random() % COPIES];

	/* Some of them leave a child behind. */
	if (random() % 4 == 0 && *copy < 0)
		*copy = fd_steal(&actor->end.stream);
	end_deinit(&actor->end);
	actor->there = false;
}

static void actor_asks_as_usual(struct actor *actor)
{
	say_register(&actor->end, 0, usual, BUNDLE_EVENTS_MIN + (size_t)random() % 3);
}

/* Of two tenants, with two users each. */
static void actor_comes(struct history *history, struct actor *actor)
{
	actor->end = end_of_user(history->world, 1 + random() % 2, getuid() + (uid_t)(random() % 2));
	actor->there = true;
	say_hello(&actor->end);
	if (random() % 2)
		actor_asks_as_usual(actor);
}

static void actor_asks(struct actor *actor)
{
	const char *batch[4];
	size_t n = (size_t)random() % ARRAY_SIZE(batch);
	uint16_t flags = random() % 4 ? 0 : REGISTER_MULTI_FORMAT;

	for (size_t i = 0; i < n; i++)
		batch[i] = descriptions[(size_t)random() % ARRAY_SIZE(descriptions)];
	say_register(&actor->end, flags, batch, n);
}

/* Whatever file it got, in this world with or without a guard, is no other's where there is none. */
static void take_files(struct history *history, struct end *end)
{
	for (size_t i = 0; i < end->heard.fds.count; i++) {
		struct stream *stream = history->world->daemon->registry.streams;
		unsigned shares;

		while (stream && stream->number != end->heard.message.stream[i])
			stream = stream->by_number.next;
		shares = stream ? count_shares(history->world->daemon, stream) : 0;
		history->shared += shares > 1;
		if (shares > 1 && !stream->shared)
			ck_abort_msg("stream %u is shared, and must not be", stream->number);
		fd_close(end->stream);
		end->stream = fdset_steal(&end->heard.fds, i);
	}
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
	take_files(history, end);
}

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

static void act(struct history *history, struct actor *actor)
{
	if (!actor->there)
		actor_comes(history, actor);
	else if (random() % 12 == 0)
		actor_leaves(history, actor);
	else if (random() % 12 == 0)
		break_connection(&actor->end);
	else if (random() % 3 == 0)
		say_release(&actor->end, 1 + (uint32_t)random() % 6);
	else if (random() % 3 == 0)
		actor_asks_as_usual(actor);
	else
		actor_asks(actor);
}

static void kernel_will_refuse(void)
{
	static const enum kernel_op ops[] = { KERNEL_PAGE_NEW, KERNEL_STREAM_NEW, KERNEL_REGISTER, KERNEL_STILL_OPEN };
	enum kernel_op op = ops[(size_t)random() % ARRAY_SIZE(ops)];

	refuse(op, op == KERNEL_REGISTER ? 1 + random() % KERNEL_E_UNSUPPORTED : -EMFILE, (unsigned)random() % 3, 1);
}

static void meddle(struct history *history)
{
	int *copy = &history->copy[random() % COPIES];
	struct fake_stream *stream = &fake.stream[random() % (2 * ACTORS)];

	switch (random() % 8) {
	case 0:
		kernel_will_refuse();
		break;
	case 1:
		set_guard(history->world, !fake.guard);
		history->flips++;
		break;
	case 2:
		stream->self_registered = true;
		streams_probe(&history->world->daemon->registry);
		break;
	case 3:
		*copy = fd_close(*copy);
		break;
	case 4:
		look_at_lingering(history->world);
		break;
	default:
		set_guard(history->world, true);
	}
}

static bool anybody_has_company(const struct daemon *daemon)
{
	const struct client *client;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		if (client->holder.bundle && client->holder.bundle->n_members > 1)
			return true;
	return false;
}

static bool anything_is_kept(const struct daemon *daemon)
{
	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		if (stream->kept)
			return true;
	return false;
}

static void step(struct history *history)
{
	switch (random() % 12) {
	case 0:
		meddle(history);
		break;
	case 1:
	case 2:
		for (int n = random() % 4; n > 0 && script.n_under_way > 0; n--)
			answer_one();
		break;
	case 3:
		answer_all();
		break;
	default:
		act(history, &history->actor[random() % ACTORS]);
	}
	turn(history->world);
	actors_hear(history);
	check_books(history->world->daemon);
	history->together += anybody_has_company(history->world->daemon);
	history->kept += anything_is_kept(history->world->daemon);
}

static void live(struct history *history, struct world *world, unsigned seed)
{
	srandom(seed);
	memset(history, 0, sizeof(*history));
	history->world = world;
	memset(history->copy, -1, sizeof(history->copy));
	hold();
	for (unsigned i = 0; i < STEPS; i++)
		step(history);
	ck_assert_uint_gt(history->granted, STEPS / 20);
	ck_assert_uint_gt(history->refused, STEPS / 20);
	ck_assert_uint_gt(history->shared, STEPS / 50);
	ck_assert_uint_gt(history->together, STEPS / 100);
	ck_assert_uint_gt(history->flips, 5);
	refuse(0, 0, 0, 0);
	hold_no_more();
	for (size_t i = 0; i < ACTORS; i++)
		if (history->actor[i].there)
			actor_leaves(history, &history->actor[i]);
	for (size_t i = 0; i < COPIES; i++)
		history->copy[i] = fd_close(history->copy[i]);
}

TEST(whatever_happens_in_whichever_order_the_books_balance)
{
	static struct history history;

	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		GUARDED(world);

		live(&history, world, seed);
	}
}

/* So little room that somebody needs it now and then. */
TEST(the_same_where_what_programs_leave_behind_is_kept)
{
	static struct history history;

	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		GUARDED(world);

		world->daemon->registry.max_events = 14;
		keep_for(world, "1h");
		live(&history, world, seed);
		ck_assert_uint_gt(history.kept, STEPS / 200);
		keep_nothing(world);
	}
}
