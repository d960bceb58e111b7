/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Data files where the guard is gone, or never was: clients share none, and one that registers by itself is disconnected. */

#include "daemon/process/log.h"
#include "protocol/row.h"
#include "tests/unit/books.h"

/* --- the guard goes --- */

TEST(clients_without_a_guard_have_streams_of_their_own)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct answer old = get(&c[0], "event u32 x"), one, other, again;

	log_begin(LOG_DEBUG);
	set_guard(world, false);
	one = get(&c[1], "event u32 x");
	other = get(&c[2], "event u32 x");
	again = get(&c[1], "more u32 x");
	expect_logged(logged(), "the guard is gone: data files are no longer shared", 1);
	ck_assert(!world->daemon->registry.guarded);
	ck_assert_uint_ne(one.stream, old.stream);
	ck_assert_uint_ne(other.stream, old.stream);
	ck_assert_uint_ne(one.stream, other.stream);
	ck_assert_uint_eq(again.stream, one.stream);
	ck_assert(!is_same_file(c[1].stream, c[2].stream));
	ck_assert(!is_same_file(c[1].stream, c[0].stream));
	ck_assert_uint_eq(one.bit, old.bit);
	expect_charged(world, 2, 4);
	/* The first client keeps its stream. */
	again = get(&c[0], "event u32 x");
	expect_same_answer(&old, &again);
}

TEST(root_of_a_container_gets_no_file_without_the_guard)
{
	GUARDED(world);
	CLIENTS(c, world, 2);

	get(&c[1], "event u32 x");
	c[0].client->holder.known.uid = 0;
	tenant_of(&c[0])->is_contained = true;
	set_guard(world, false);
	for (unsigned i = 0; i < 3; i++) {
		be_refused(&c[0], "event u32 x", REFUSAL_NOT_PERMITTED);
		expect_no_file(&c[0]);
		ck_assert_uint_eq(query(&c[0]).leases, 0);
	}
	set_guard(world, true);
	get(&c[0], "event u32 x");
	expect_file(&c[0]);
}

TEST(streams_are_shared_again_when_the_guard_is_back)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	WELCOMED_AS(third, world, 1, getuid() + 1);
	WELCOMED_AS(fourth, world, 1, getuid() + 1);

	log_begin(LOG_DEBUG);
	get(&c[3], "event u32 x");
	set_guard(world, false);
	get(&c[0], "event u32 x");
	ck_assert(!world->daemon->registry.guarded);
	set_guard(world, true);
	get(&c[1], "event u32 x");
	ck_assert(world->daemon->registry.guarded);
	/* A stream that was made, or chosen, without the guard is not shared. */
	ck_assert(!is_same_file(c[0].stream, c[1].stream));
	ck_assert(!is_same_file(c[3].stream, c[1].stream));
	get(&c[2], "event u32 x");
	get(&third, "event u32 x");
	ck_assert_uint_eq(get(&fourth, "event u32 x").stream, third.heard.message.stream[0]);
	expect_logged(logged(), "the guard is back", 1);
}

/* Events that the others registered on it would be there, too. Nobody gets a file where the guard is required. */
TEST(stream_made_without_the_guard_is_for_one_client)
{
	for (unsigned i = 0; i < 8; i++) {
		const unsigned n = 1 + i / 2, required = i % 2, sent = n == 1 && !required;
		_cleanup_(world_leave) struct world *world = world_on(required ? "require" : "prefer", true);
		CLIENTS(c, world, n);

		hold();
		for (unsigned j = 0; j < n; j++)
			REGISTER(&c[j], "one u32 x", "two u32 x", "one u32 x");
		set_guard(world, false);
		hold_no_more();
		for (unsigned j = 0; j < n; j++) {
			expect_each(&c[j], sent ? REFUSAL_NONE : REFUSAL_TROUBLE, 3);
			ck_assert_int_eq(c[j].stream >= 0, sent);
		}
		ck_assert_uint_eq(count_fake_streams(), sent);
		for (unsigned j = 0; j < n; j++) {
			REGISTER(&c[j], "one u32 x");
			expect_each(&c[j], required ? REFUSAL_TROUBLE : REFUSAL_NONE, 1);
			ck_assert(j == 0 || required || !is_same_file(c[0].stream, c[j].stream));
		}
		ck_assert_uint_eq(count_fake_streams(), required ? 0 : n);
	}
}

/* A stream is proved when it is chosen, and again before it is sent. */
TEST(shared_stream_is_not_sent_when_the_guard_goes)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer old = get(&c[0], "one u32 x"), answer[4];

	hold();
	REGISTER(&c[1], "one u32 x", "two u32 x", "two u32 x", "bad long x");
	set_guard(world, false);
	hold_no_more();
	expect_answers(&c[1], answer, 4);
	for (size_t i = 0; i < 3; i++)
		ck_assert(answer[i].refusal == REFUSAL_TROUBLE && answer[i].length > 0);
	ck_assert_uint_eq(answer[3].refusal, REFUSAL_BAD_DESCRIPTION);
	expect_no_file(&c[1]);
	ck_assert_uint_eq(query(&c[1]).leases, 0);
	/* The new event stays registered until that stream ends. */
	expect_account(&c[0], 2, 1, 1);
	ck_assert_uint_ne(get(&c[1], "two u32 x").stream, old.stream);
	expect_account(&c[0], 2, 1, 0);
}

/* Its first client may have registered on it meanwhile. */
TEST(shared_stream_is_not_sent_when_the_guard_was_away)
{
	GUARDED(world);
	CLIENTS(c, world, 3);

	get(&c[0], "one u32 x");
	hold();
	REGISTER(&c[1], "two u32 x");
	set_guard(world, false);
	REGISTER(&c[2], "three u32 x");
	ck_assert(!world->daemon->registry.guarded);
	set_guard(world, true);
	hold_no_more();
	expect_refused(&c[1], REFUSAL_TROUBLE);
	expect_no_file(&c[1]);
	expect_each(&c[2], REFUSAL_NONE, 1);
	get(&c[1], "two u32 x");
	expect_file(&c[1]);
	ck_assert(!is_same_file(c[0].stream, c[1].stream));
}

/* The others have their answers and leave, and the daemon closes its copy. */
TEST(stream_closed_while_a_client_waits_is_refused)
{
	GUARDED(world);
	CLIENTS(c, world, 3);

	get(&c[0], "one u32 x");
	hold();
	REGISTER(&c[1], "two u32 x");
	REGISTER(&c[2], "three u32 x");
	set_guard(world, false);
	answer_one();
	expect_refused(&c[1], REFUSAL_TROUBLE);
	end_hang_up(&c[0]);
	hold_no_more();
	expect_refused(&c[2], REFUSAL_TROUBLE);
	expect_no_file(&c[2]);
	get(&c[2], "three u32 x");
	expect_file(&c[2]);
}

TEST(required_guard_that_is_gone_refuses_all_files)
{
	REQUIRED(world);
	CLIENTS(c, world, 3);

	log_begin(LOG_DEBUG);
	set_guard(world, false);
	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&c[0], "one u32 x", "two u32 x", "one u32 x");
		expect_each(&c[0], REFUSAL_TROUBLE, 3);
		expect_no_file(&c[0]);
		expect_no_charges(world);
		ck_assert_ptr_null(world->daemon->registry.streams);
		ck_assert_uint_eq(count_fake_streams(), 0);
	}
	expect_logged(logged(), "the guard is gone: data files are not given out any more", 1);
	set_guard(world, true);
	for (unsigned i = 0; i < 3; i++)
		get(&c[i], "one u32 x");
	ck_assert(world->daemon->registry.guarded);
	ck_assert(is_same_file(c[1].stream, c[2].stream));
}

/* Found with the first file. */
TEST(kernel_wrong_about_its_guard_is_not_believed)
{
	GUARDED(world);
	CLIENTS(c, world, 2);

	fake.guard = false;
	get(&c[0], "event u32 x");
	get(&c[1], "event u32 x");
	ck_assert(!is_same_file(c[0].stream, c[1].stream));
	ck_assert(!world->daemon->registry.guarded);
}

TEST(kernel_without_a_guard_gives_each_client_a_stream)
{
	UNGUARDED(world);
	CLIENTS(c, world, 2);
	struct answer one = get(&c[0], "event u32 x"), other = get(&c[1], "event u32 x");

	ck_assert_uint_ne(one.stream, other.stream);
	ck_assert_uint_eq(one.bit, other.bit);
	ck_assert(!is_same_file(c[0].stream, c[1].stream));
	expect_charged(world, 1, 2);
	/* The client's copy is the only one. */
	for (const struct stream *stream = world->daemon->registry.streams; stream; stream = stream->by_number.next)
		ck_assert_int_eq(stream->fd, -1);
}

TEST(status_shows_whether_the_guard_holds)
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

/* --- self-registered events --- */

TEST(self_registration_disconnects_one_client_alone)
{
	UNGUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED(other, world, 2);
	uint32_t stream = get(&c[0], "event u32 x").stream;

	get(&c[1], "event u32 x");
	get(&other, "event u32 x");
	ck_assert(streams_probe(&world->daemon->registry));
	expect_asked(KERNEL_CLEAN, 3);
	expect_silence(&c[0]);
	register_on(stream);
	streams_probe(&world->daemon->registry);
	ck_assert_uint_eq(count_self_registered(&c[1]), 1);
	expect_cut(&c[0], REFUSAL_SELF_REGISTERED);
	expect_silence(&c[1]);
	expect_silence(&other);
	ck_assert_uint_eq(count_self_registered(&other), 0);
	/* The daemon does not ask about it again. */
	turn(world);
	script.asked[KERNEL_CLEAN] = 0;
	streams_probe(&world->daemon->registry);
	expect_asked(KERNEL_CLEAN, 2);
	ck_assert_uint_eq(count_self_registered(&c[1]), 1);
}

/* Before the timer looks. */
TEST(self_registration_is_noticed_at_the_next_request)
{
	UNGUARDED(world);
	CLIENTS(c, world, 3);

	register_on(get(&c[0], "event u32 x").stream);
	register_on(get(&c[1], "event u32 x").stream);
	REGISTER(&c[0], "more u32 x");
	ck_assert_uint_eq(count_self_registered(&c[2]), 1);
	expect_cut(&c[0], REFUSAL_SELF_REGISTERED);
	end_hang_up(&c[1]);
	ck_assert_uint_eq(count_self_registered(&c[2]), 2);
	expect_silence(&c[2]);
}

TEST(late_answer_about_an_ended_stream_is_ignored)
{
	UNGUARDED(world);
	CLIENTS(c, world, 2);
	struct batch *clean;

	register_on(get(&c[0], "event u32 x").stream);
	hold();
	streams_probe(&world->daemon->registry);
	clean = TAILQ_FIRST(&script.under_way);
	carry_out_batch(clean);
	ck_assert_int_eq(clean->calls[0].result, KERNEL_E_SELF_REGISTERED);
	TAILQ_REMOVE(&script.under_way, clean, entry);
	c[0].stream = fd_close(c[0].stream);
	end_hang_up(&c[0]);
	refuse(KERNEL_CLEAN, KERNEL_OK, 0, 1);
	hold_no_more();
	ck_assert_uint_eq(count_fake_streams(), 0);
	TAILQ_INSERT_TAIL(&script.under_way, clean, entry);
	script.n_under_way++;
	answer_all();
	ck_assert_uint_eq(count_self_registered(&c[1]), 0);
	refuse(0, 0, 0, 0);
}

TEST(guarded_files_are_not_probed)
{
	GUARDED(world);
	CLIENTS(c, world, 2);

	register_on(get(&c[0], "event u32 x").stream);
	get(&c[1], "event u32 x");
	get(&c[1], "more u32 x");
	ck_assert(!streams_probe(&world->daemon->registry));
	end_hang_up(&c[0]);
	end_hang_up(&c[1]);
	expect_asked(KERNEL_CLEAN, 0);
}

TEST(unexpected_answer_disconnects_nobody)
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
	ck_assert_uint_eq(count_self_registered(&end), 0);
}

TEST(files_that_lose_their_guard_are_probed_by_a_timer)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED_AS(other, world, 1, getuid() + 1);

	get(&c[0], "event u32 x");
	ck_assert(!ev_is_active(&world->daemon->registry.w_probe));
	set_guard(world, false);
	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 2);
	be_refused(&other, "event u32 x", REFUSAL_TROUBLE);
	be_refused(&c[1], "event u32 x", REFUSAL_TROUBLE);
	ck_assert(!world->daemon->registry.guarded);
	ck_assert(ev_is_active(&world->daemon->registry.w_probe));
}
