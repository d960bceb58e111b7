/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which clients share a data file, while it is made, while it is used, and when its clients leave. */

#include <stdio.h>
#include <sys/mman.h>

#include "protocol/row.h"
#include "tests/unit/lists.h"

/* --- sharing --- */

TEST(second_client_shares_the_stream_for_nothing)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer one = get(&c[0], "event u32 x"), other;
	unsigned calls = count_calls();

	expect_asked(KERNEL_STREAM_NEW, 1);
	other = get(&c[1], "event u32 x");
	ck_assert_uint_eq(count_calls(), calls);
	expect_same_answer(&one, &other);
	ck_assert(is_same_file(c[0].stream, c[1].stream));
	expect_charged(world, 1, 2);
	ck_assert_uint_eq(query(&c[1]).events, 1);
	expect_kernel_has(1, 1);
}

/* --- while the stream is being made --- */

TEST(stream_that_is_being_made_takes_more_events)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer one, other[2];

	hold();
	REGISTER(&c[0], "one u32 x");
	REGISTER(&c[1], "one u32 x", "two u32 x");
	expect_under_way(2);
	expect_silence(&c[0]);
	expect_silence(&c[1]);
	hold_no_more();
	one = expect_granted(&c[0]);
	expect_answers(&c[1], other, 2);
	expect_same_answer(&one, &other[0]);
	ck_assert_uint_eq(other[1].stream, one.stream);
	ck_assert(is_same_file(c[0].stream, c[1].stream));
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_charged(world, 2, 3);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

TEST(stream_that_is_not_made_refuses_all_who_wait)
{
	static const int results[] = { -EMFILE, -ENOMEM, KERNEL_E_FULL, KERNEL_E_NO_SUCH };
	GUARDED(world);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		CLIENTS(c, world, 2);

		hold();
		REGISTER(&c[0], "one u32 x");
		REGISTER(&c[1], "one u32 x", "two u32 x");
		refuse(KERNEL_STREAM_NEW, results[i], 0, 1);
		hold_no_more();
		expect_refused(&c[0], REFUSAL_TROUBLE);
		expect_each(&c[1], REFUSAL_TROUBLE, 2);
		expect_no_file(&c[0]);
		expect_no_file(&c[1]);
		expect_no_charges(world);
		ck_assert_ptr_null(world->daemon->registry.streams);
		get(&c[1], "one u32 x");
		ck_assert_uint_eq(get(&c[0], "one u32 x").stream, c[1].heard.message.stream[0]);
	}
}

/* The leaver disconnects; or it hangs up, which the daemon finds out with the answer. */
TEST(stream_that_is_being_made_is_for_who_stays)
{
	for (unsigned i = 0; i < 4; i++) {
		GUARDED(world);
		CLIENTS(c, world, 2);
		const unsigned leaver = i % 2;

		hold();
		REGISTER(&c[0], "one u32 x");
		REGISTER(&c[1], "one u32 x");
		if (i < 2)
			break_connection(&c[leaver]);
		else
			end_hang_up(&c[leaver]);
		hold_no_more();
		expect_granted(&c[1 - leaver]);
		expect_file(&c[1 - leaver]);
		expect_asked(KERNEL_STREAM_NEW, 1);
		expect_account(&c[1 - leaver], 1, 1, 0);
	}
}

/* --- clients that leave --- */

TEST(event_of_a_client_that_left_lingers)
{
	GUARDED(world);
	CLIENTS(c, world, 2);

	get(&c[0], "one u32 x");
	get(&c[1], "one u32 x");
	hold();
	REGISTER(&c[1], "two u32 x");
	break_connection(&c[1]);
	hold_no_more();
	expect_account(&c[0], 2, 1, 1);
	ck_assert_uint_eq(query(&c[0]).connections, 1);
	expect_asked(KERNEL_STILL_OPEN, 0);
	/* It costs nothing more. */
	get(&c[0], "two u32 x");
	ck_assert_uint_eq(query(&c[0]).lingering, 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

/* Nothing could be registered on the lingering stream. */
TEST(client_after_the_last_one_gets_a_new_stream)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer one = get(&c[0], "event u32 x"), other;

	end_hang_up(&c[0]);
	ck_assert(look_at_lingering(world));
	other = get(&c[1], "event u32 x");
	ck_assert_uint_ne(other.stream, one.stream);
	ck_assert_uint_eq(other.bit, one.bit);
	ck_assert_uint_eq(query(&c[1]).events, 1);
	c[0].stream = fd_close(c[0].stream);
	look_at_lingering(world);
	ck_assert_uint_eq(query(&c[1]).events, 1);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

/* --- generations --- */

TEST(stream_with_many_dead_events_serves_nobody_new)
{
	GUARDED(world);
	CLIENTS(c, world, 5);
	struct answer answer = get(&c[0], "event u32 x"), other;
	unsigned calls;

	leave_dead(&c[0], STREAM_DEAD_MIN);
	ck_assert_uint_eq(get(&c[1], "event u32 x").stream, answer.stream);
	release(&c[0], get(&c[0], "one_more u32 x").bit);
	other = get(&c[2], "event u32 x");
	ck_assert_uint_ne(other.stream, answer.stream);
	ck_assert_uint_eq(other.bit, answer.bit);
	ck_assert(!is_same_file(c[0].stream, c[2].stream));
	ck_assert_uint_eq(get(&c[3], "event u32 x").stream, other.stream);
	/* The others keep it. */
	calls = count_calls();
	for (unsigned i = 0; i < 2; i++) {
		other = get(&c[i], "event u32 x");
		expect_same_answer(&answer, &other);
	}
	ck_assert_uint_eq(count_calls(), calls);
	expect_charged(world, STREAM_DEAD_MIN + 2, 4);
	end_hang_up(&c[0]);
	ck_assert_uint_eq(get(&c[4], "event u32 x").stream, c[2].heard.message.stream[0]);
}

TEST(new_event_of_an_old_client_is_on_a_new_stream)
{
	GUARDED(world);
	WELCOMED(old, world, 1);
	_cleanup_(fd_closep) int first = -1;
	struct answer one = get(&old, "event u32 x"), again;

	leave_dead(&old, STREAM_DEAD_MIN + 1);
	first = fd_steal(&old.stream);
	ck_assert_uint_ne(get(&old, "new u32 x").stream, one.stream);
	ck_assert(!is_same_file(first, old.stream));
	again = get(&old, "event u32 x");
	expect_same_answer(&one, &again);
	/* The first stream ends with its last lease, and with it all dead events. */
	fd_close(fd_steal(&first));
	release(&old, one.bit);
	look_at_lingering(world);
	expect_charged(world, 1, 1);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

TEST(stream_with_more_live_than_dead_events_goes_on)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list live = list_of(0, STREAM_DEAD_MIN + 6);
	uint32_t stream = get_list(&c[0], &live).answer[0].stream;

	leave_dead(&c[0], STREAM_DEAD_MIN + 6);
	ck_assert_uint_eq(get(&c[1], "event_1 u32 x").stream, stream);
	release(&c[1], c[1].bit);
	release(&c[0], get(&c[0], "straw u32 x").bit);
	ck_assert_uint_ne(get(&c[1], "event_1 u32 x").stream, stream);
}

/* The stream on which all of them are. */
static uint32_t get_many(struct end *end, unsigned first, unsigned n)
{
	const struct list list = list_of(first, n);
	const struct granted granted = get_list(end, &list);

	for (unsigned i = 1; i < n; i++)
		ck_assert_uint_eq(granted.answer[i].stream, granted.answer[0].stream);
	return granted.answer[0].stream;
}

TEST(full_stream_is_followed_by_a_new_one)
{
	GUARDED(world);
	WELCOMED(one_by_one, world, 1);
	WELCOMED(at_once, world, 2);
	uint32_t stream = get_many(&one_by_one, 0, STREAM_EVENTS_MAX - 1), other;

	ck_assert_uint_eq(get_many(&one_by_one, STREAM_EVENTS_MAX - 1, 1), stream);
	other = get_many(&one_by_one, STREAM_EVENTS_MAX, 1);
	ck_assert_uint_ne(other, stream);
	ck_assert_uint_eq(get_many(&one_by_one, STREAM_EVENTS_MAX + 1, 1), other);
	ck_assert_uint_eq(get_many(&one_by_one, 0, STREAM_EVENTS_MAX), stream);
	/* A batch is not divided. */
	stream = get_many(&at_once, 0, STREAM_EVENTS_MAX - 1);
	ck_assert_uint_eq(get_many(&at_once, STREAM_EVENTS_MAX, 200), stream);
	ck_assert_uint_ne(get_many(&at_once, STREAM_EVENTS_MAX + 200, 200), stream);
}

/* --- admins, and clients that watch --- */

TEST(events_are_listed_with_their_holders)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED_AS(other, world, 2, 4711);
	ADMIN(admin, world);
	struct cursor rows, row, holders, holder;
	struct row_field field;

	ask_for_rows(&admin, KIND_EVENTS, 0);
	get(&c[0], "one u32 x");
	get(&c[1], "one u32 x");
	get(&other, "one u32 x");
	release(&other, get_with(&other, REGISTER_MULTI_FORMAT, "two u64 y").bit);
	rows = ask_for_rows(&admin, KIND_EVENTS, 2);
	row = next_row(&rows);
	expect_string(row, "event", "one");
	expect_string(row, "description", "one u32 x");
	ck_assert_uint_eq(row_get_u64(row, "holders_total"), 3);
	ck_assert_uint_eq(row_get_u64(row, "tenants"), 2);
	ck_assert_uint_eq(row_get_u64(row, "lingering"), 0);
	ck_assert_uint_eq(row_get_u64(row, "multi_format"), 0);
	/* The kernel knows that. */
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
	end_hang_up(&other);
	rows = ask_for_rows(&admin, KIND_EVENTS, 2);
	holders = holders_of(next_row(&rows));
	ck_assert_uint_eq(count_items(holders), 2);
	ck_assert_int_eq(row_next_item(&holders, &holder), 1);
	expect_string(holder, "tenant", "process:1:program");
}

TEST(long_listing_has_each_event_once_in_order)
{
	enum { EVENTS = 900 };
	GUARDED(world);
	WELCOMED(end, world, 1);
	ADMIN(admin, world);
	struct list lists[] = { list_of(0, EVENTS / 2), list_of(EVENTS / 2, EVENTS / 2) };
	unsigned listed = 0;
	bool more = true;

	get_list(&end, &lists[0]);
	get_list(&end, &lists[1]);
	say_simply(&admin, KIND_EVENTS);
	while (more) {
		const struct message *message = expect(&admin, KIND_ROWS);
		struct cursor rows, row;
		uint16_t count;

		more = message->flags & WIRE_MORE;
		ck_assert_int_eq(decode_rows(message->body, &count, &rows), 0);
		while (rows_next(&rows, &row)) {
			char expected[TEXT_MAX];

			describe(expected, listed++);
			expect_string(row, "description", expected);
		}
	}
	ck_assert_uint_eq(listed, EVENTS);
}

TEST(tracing_is_refused_where_the_kernel_traces)
{
	GUARDED(world);
	ADMIN(admin, world);

	for (unsigned kind = KIND_TRACE; kind <= KIND_TAIL; kind++) {
		struct packet packet = begin(&admin, (uint16_t)kind);
		size_t mark = encode_list(&packet, 0);

		encode_string(&packet, 0, "*", 1);
		encode_count(&packet, mark, 1);
		say(&admin, &packet);
		expect_error(&admin, KIND_REFUSED, REFUSAL_NOT_THE_TRACER);
	}
}

TEST(changed_bit_is_reported_to_clients_that_watch)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	uint32_t bit = get(&c[0], "event u32 x").bit;
	struct wire_changed changed;
	struct cursor bits;
	uint8_t *page;

	get(&c[1], "event u32 x");
	say_simply(&c[0], KIND_WATCH);
	expect(&c[0], KIND_WATCHING);
	page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fake.page_fd[0], 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	page[bit / 8] |= (uint8_t)(1u << bit % 8);
	page[WIRE_PAGE_BYTES - 1] = 0xff; /* bits without an event */
	while (!hear(&c[0]))
		ev_run(world->daemon->loop, EVRUN_ONCE);
	ck_assert_uint_eq(c[0].heard.message.kind, KIND_CHANGED);
	ck_assert_int_eq(decode_changed(c[0].heard.message.body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.count, 1);
	expect_silence(&c[1]);
	munmap(page, WIRE_PAGE_BYTES);
}

TEST(daemon_with_streams_being_made_ends_well)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED_AS(third, world, 1, getuid() + 1);
	WELCOMED_AS(fourth, world, 1, getuid() + 1);

	get(&c[0], "one u32 x");
	get(&c[1], "one u32 x");
	hold();
	REGISTER(&c[1], "two u32 x");
	REGISTER_WITH(&third, REGISTER_PERSIST, "one u32 x");
	REGISTER(&fourth, "one u32 x", "three u32 x");
	break_connection(&fourth);
	end_hang_up(&c[0]);
	answer_one();
	world_end(world);
	expect_under_way(0);
}
