/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The daemon with a kernel that answers late, as the keeper does: answers come in order, after anything else, and may be refusals. The
 * embedded backend carries the calls out, so at the end it shows whether it was told of everything.
 */

#include <sys/socket.h>

#include "daemon/identity/peer.h"
#include "daemon/registry/tenant.h"
#include "protocol/transport.h"
#include "tests/unit/world.h"

/* --- HELLO --- */

TEST(requests_wait_until_the_page_is_there)
{
	WORLD(world, 10, 10);
	END(end, world, 1);

	hold();
	say_hello(&end);
	say_simply(&end, KIND_QUERY);
	expect_silence(&end);
	expect_under_way(1);
	hold_no_more();
	expect_welcome(&end);
	expect(&end, KIND_ACCOUNT);
	expect_silence(&end);
}

TEST(page_that_is_not_made_disconnects_one_client)
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

TEST(page_for_a_tenant_that_has_gone_is_freed)
{
	WORLD(world, 10, 10);
	END(end, world, 1);
	const struct batch *batch;

	hold();
	say_hello(&end);
	batch = TAILQ_FIRST(&script.under_way);
	break_connection(&end);
	ck_assert_ptr_null(world->daemon->registry.tenants);
	/* The call has a copy of the path. */
	ck_assert_str_eq(batch->calls[0].text, "process:1:program");
	hold_no_more();
	expect_asked(KERNEL_PAGE_FREE, 1);
	expect_nothing_left(world);
}

TEST(page_beyond_the_timeout_is_the_daemons_trouble)
{
	WORLD(world, 10, 10);
	END(end, world, 1);
	END(silent, world, 2);

	hold();
	say_hello(&end);
	world->daemon->options.client_timeout = 0;
	ev_invoke(world->daemon->loop, &world->daemon->connections.w_deadlines, EV_TIMER);
	turn(world);
	expect_cut(&end, REFUSAL_TROUBLE);
	expect_cut(&silent, REFUSAL_TOO_SLOW);
	hold_no_more();
	expect_nothing_left(world);
}

/* The kernel may make the page a second time or not. */
TEST(two_clients_that_ask_for_one_page_both_get_it)
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

/* The first has left, or was refused. */
TEST(second_client_gets_the_page_without_the_first)
{
	for (unsigned refused = 0; refused < 2; refused++) {
		WORLD(world, 10, 10);
		END(first, world, 1);
		END(second, world, 1);

		hold();
		say_hello(&first);
		say_hello(&second);
		if (refused)
			refuse(KERNEL_PAGE_NEW, -EMFILE, 0, 1);
		else
			break_connection(&first);
		hold_no_more();
		if (refused)
			expect_cut(&first, REFUSAL_TROUBLE);
		expect_welcome(&second);
		get(&second, "event u32 x");
	}
}

/* --- REGISTER --- */

TEST(event_under_way_is_charged_and_not_leased)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	hold();
	REGISTER(&end, "one u32 x", "two u32 x");
	expect_silence(&end);
	expect_charged(world, 2, 0);
	ck_assert_uint_eq(count_slots(), 0);
	hold_no_more();
	expect_each(&end, REFUSAL_NONE, 2);
	expect_file(&end);
	expect_charged(world, 2, 2);
	expect_account(&end, 2, 2, 0);
}

TEST(events_under_way_count_against_the_maximum)
{
	WORLD(world, 4, 2);
	CLIENTS(c, world, 2);
	WELCOMED(other, world, 2);
	struct answer answer[2];

	hold();
	REGISTER(&c[0], "one u32 x", "two u32 x");
	REGISTER(&c[1], "three u32 x");
	REGISTER(&other, "three u32 x", "four u32 x");
	hold_no_more();
	expect_each(&c[0], REFUSAL_NONE, 2);
	expect_refused(&c[1], REFUSAL_QUOTA_EXCEEDED);
	expect_answers(&other, answer, 2);
	ck_assert_uint_eq(answer[0].refusal, REFUSAL_NONE);
	/* The last place is left for a tenant without events. */
	ck_assert_uint_eq(answer[1].refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 3);
}

TEST(kernels_refusal_is_translated_and_costs_nothing)
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
		/* No answers to REGISTER. */
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
		expect_no_file(&end);
		ck_assert_ptr_null(world->daemon->registry.streams);
		expect_no_charges(world);
		ck_assert_uint_eq(query(&end).events, 0);
	}
	get(&end, "event u32 x");
	expect_file(&end);
}

TEST(refusal_in_a_batch_is_for_one_event)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	static const uint32_t refusals[] = { REFUSAL_NONE, REFUSAL_BAD_DESCRIPTION, REFUSAL_PAGE_FULL, REFUSAL_NONE,
					     REFUSAL_NONE };
	struct answer answer[ARRAY_SIZE(refusals)];

	hold();
	REGISTER(&end, "one u32 x", "two long x", "three u32 x", "four u32 x", "one u32 x");
	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 1, 1);
	hold_no_more();
	expect_answers(&end, answer, ARRAY_SIZE(refusals));
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		ck_assert_uint_eq(answer[i].refusal, refusals[i]);
	ck_assert_uint_eq(answer[4].bit, answer[0].bit);
	ck_assert_uint_eq(answer[4].index, answer[0].index);
	ck_assert_uint_ne(answer[3].bit, answer[0].bit);
	expect_account(&end, 2, 2, 0);
	ck_assert_uint_eq(count_slots(), 2);
}

TEST(stream_after_a_refusal_takes_records)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer;

	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
	be_refused(&end, "event u32 x", REFUSAL_PAGE_FULL);
	answer = get(&end, "event u32 x");
	expect_record(&end, &answer);
}

/* The first may be refused. */
TEST(event_that_two_clients_register_has_one_charge)
{
	for (unsigned refused = 0; refused < 2; refused++) {
		WORLD(world, 10, 1);
		CLIENTS(c, world, 2);
		struct answer one, other;

		hold();
		REGISTER(&c[0], "event u32 x");
		REGISTER(&c[1], "event u32 x");
		expect_charged(world, 1, 0);
		if (refused)
			refuse(KERNEL_REGISTER, -EMFILE, 0, 1);
		hold_no_more();
		if (refused)
			expect_refused(&c[0], REFUSAL_TROUBLE);
		else
			one = expect_granted(&c[0]);
		other = expect_granted(&c[1]);
		ck_assert(refused || (one.bit == other.bit && one.stream != other.stream));
		expect_account(&c[1], 1, 1, 0);
		expect_charged(world, 1, 2 - refused);
	}
}

/* It disconnects; or it hangs up, which the daemon notices when it sends the answer. The kernel grants or refuses. */
TEST(client_leaving_while_it_registers_leaves_nothing)
{
	static const enum kernel_op refused[] = { KERNEL_OP_MAX_, KERNEL_STREAM_NEW, KERNEL_REGISTER };
	WORLD(world, 10, 10);

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(refused); i++) {
		WELCOMED(end, world, 1);

		hold();
		REGISTER(&end, "one u32 x", "two u32 x", "one u32 x");
		if (i % 2)
			end_hang_up(&end);
		else
			break_connection(&end);
		expect_charged(world, 2, 0);
		ck_assert_uint_eq(world->daemon->registry.n_holders, i % 2);
		refuse(refused[i / 2], -EMFILE, 0, 2);
		hold_no_more();
		turn(world);
		expect_nothing_left(world);
		refuse(0, 0, 0, 0);
	}
}

/* Another process may hold the stream. */
TEST(client_leaving_while_it_registers_leaves_a_stream)
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
		expect_charged(world, 1, 0);
		ck_assert_uint_eq(count_slots(), 1);
		ck_assert(look_at_lingering(world));
		end.stream = fd_close(end.stream);
		ck_assert(!look_at_lingering(world));
		expect_nothing_left(world);
	}
}

/* The page is freed after its streams, or the kernel would keep it. */
TEST(client_leaving_an_empty_stream_frees_its_page)
{
	static const char *const batches[] = { "bad long x", "two u32 x" };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		WELCOMED(end, world, 1);

		release(&end, get(&end, "one u32 x").bit);
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

/* --- CHANGED --- */

/* The client's queue is full. */
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

TEST(change_during_a_registration_follows_the_answer)
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

/* All charges are refunded, which the daemon asserts, and all calls answered. */
TEST(daemon_with_calls_under_way_ends_well)
{
	static const struct {
		bool has_stream, releases, registers;
		void (*leaves)(struct end *);
	} cases[] = {
		{ false, false, true, NULL },	    { false, false, true, break_connection },
		{ true, false, true, NULL },	    { true, false, true, break_connection },
		{ true, true, false, NULL },	    { true, true, true, NULL },
		{ true, true, false, end_hang_up }, { true, false, false, end_hang_up },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		WORLD(world, 10, 10);
		WELCOMED(end, world, 1);
		END(next, world, 2);

		if (cases[i].has_stream)
			get(&end, "one u32 x");
		hold();
		say_hello(&next);
		if (cases[i].releases)
			say_release(&end, end.bit);
		if (cases[i].registers)
			REGISTER(&end, "one u32 x", "two u32 x");
		if (cases[i].leaves)
			cases[i].leaves(&end);
		ck_assert_uint_gt(script.n_under_way, 1);
		world_end(world);
		expect_under_way(0);
	}
}

TEST(connection_without_memory_leaves_nothing)
{
	WORLD(world, 10, 10);
	struct cgroup cgroup = { .path = (char[]){ "/world" } };
	const struct peer peer = { .pid = 1, .comm = "program", .cgroup = &cgroup };
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
