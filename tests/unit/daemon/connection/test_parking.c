/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Identical requests while the first is being answered: they wait for its answer, and the kernel is asked once. */

#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/tenant.h"
#include "tests/unit/lists.h"

enum { N = BUNDLE_EVENTS_MIN };

/* All ask for the same, while the kernel holds. */
static struct list ask_alike(struct end *ends, unsigned n, unsigned events)
{
	const struct list list = list_of(0, events);

	hold();
	for (unsigned i = 0; i < n; i++)
		say_list(&ends[i], &list);
	return list;
}

static unsigned count_members(const struct end *end)
{
	return end->client->holder.bundle ? end->client->holder.bundle->n_members : 0;
}

static void expect_together(const struct end *one, const struct end *other)
{
	ck_assert_ptr_nonnull(one->client->holder.bundle);
	ck_assert_ptr_eq(one->client->holder.bundle, other->client->holder.bundle);
}

TEST(identical_requests_wait_for_one_answer)
{
	GUARDED(world);
	enum { ENDS = 6 };
	CLIENTS(c, world, ENDS);
	struct list list = list_of(0, N);
	struct granted one, other;

	hold();
	for (unsigned i = 0; i < ENDS; i++) {
		c[i].serial = 100 * i;
		say_list(&c[i], &list);
	}
	expect_under_way(1);
	expect_charged(world, N, 0);
	for (unsigned i = 0; i < ENDS; i++)
		expect_silence(&c[i]);
	check_books(world->daemon);
	answer_one();
	one = expect_list(&c[0], &list);
	for (unsigned i = 1; i < ENDS; i++) {
		other = expect_list(&c[i], &list);
		expect_same_answers(&one, &other, N);
		expect_together(&c[0], &c[i]);
		ck_assert(is_same_file(c[0].stream, c[i].stream));
		expect_silence(&c[i]);
	}
	expect_under_way(0);
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_asked(KERNEL_REGISTER, N);
	expect_charged(world, N, ENDS * N);
}

TEST(waiting_takes_no_memory)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = ask_alike(c, 1, N);

	allocations_given = 0;
	say_list(&c[1], &list);
	allocations_given = -1;
	expect_under_way(1);
	hold_no_more();
	expect_list(&c[0], &list);
	expect_list(&c[1], &list);
	expect_together(&c[0], &c[1]);
}

/* Fewer or other events, another order, user or tenant, a client that holds an event already. */
TEST(other_requests_do_not_wait)
{
	GUARDED(world);
	CLIENTS(c, world, 5);
	WELCOMED_AS(user, world, 1, getuid() + 1);
	WELCOMED(tenant, world, 2);
	struct list list = list_of(0, N), fewer = list_of(0, N - 1), others = list_of(N / 2, N), order = list;
	const struct {
		struct end *end;
		const struct list *list;
	} cases[] = {
		{ &c[0], &list }, { &c[1], &fewer }, { &c[2], &others }, { &c[3], &order },
		{ &c[4], &list }, { &user, &list },  { &tenant, &list },
	};

	order.event[0] = 1;
	order.event[1] = 0;
	get(&c[4], "event_50 u32 x");
	hold();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		say_list(cases[i].end, cases[i].list);
		expect_under_way(i + 1);
	}
	hold_no_more();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_list(cases[i].end, cases[i].list);
	ck_assert_uint_eq(world->daemon->registry.machine.common, N + N / 2 + 1);
}

TEST(unguarded_or_short_requests_do_not_wait)
{
	for (unsigned guarded = 0; guarded < 2; guarded++) {
		_cleanup_(world_leave) struct world *world = world_on("prefer", guarded);
		CLIENTS(c, world, 2);
		struct list list = ask_alike(c, 2, guarded ? N - 1 : N);

		expect_under_way(2);
		hold_no_more();
		expect_list(&c[0], &list);
		expect_list(&c[1], &list);
		ck_assert_uint_eq(count_members(&c[0]) + count_members(&c[1]), 0);
		ck_assert_int_eq(is_same_file(c[0].stream, c[1].stream), guarded);
	}
}

TEST(waiting_client_is_not_read)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = ask_alike(c, 2, N);

	say_simply(&c[1], KIND_QUERY);
	say_simply(&c[1], KIND_QUERY);
	expect_silence(&c[1]);
	hold_no_more();
	expect_list(&c[0], &list);
	c[1].serial -= 2;
	expect_list(&c[1], &list);
	for (unsigned i = 0; i < 2; i++) {
		struct wire_account account;

		ck_assert_int_eq(decode_account(expect(&c[1], KIND_ACCOUNT)->body, &account), 0);
		ck_assert_uint_eq(account.leases, N);
		ck_assert_uint_eq(c[1].heard.message.serial, c[1].serial + 1 + i);
	}
	expect_silence(&c[1]);
}

TEST(different_requests_are_waited_for_separately)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	struct list lists[] = { list_of(0, N), list_of(N / 2, N) };

	hold();
	for (unsigned i = 0; i < 4; i++)
		say_list(&c[i], &lists[i % 2]);
	expect_under_way(2);
	for (unsigned i = 0; i < 2; i++) {
		answer_one();
		expect_list(&c[i], &lists[i]);
		expect_list(&c[i + 2], &lists[i]);
		expect_silence(&c[1]);
		expect_silence(&c[3]);
		expect_together(&c[i], &c[i + 2]);
	}
	ck_assert_ptr_ne(c[0].client->holder.bundle, c[1].client->holder.bundle);
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_asked(KERNEL_REGISTER, 2 * N);
}

/* The kernel begins before all of it is decided, and answers in several batches. */
TEST(long_request_is_answered_when_all_of_it_is_settled)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = ask_alike(c, 2, 200);
	unsigned answers = 0, leased = 0;

	for (answer_one(); c[0].client->task; answer_one(), answers++) {
		expect_silence(&c[0]);
		expect_silence(&c[1]);
		/* Granted events are leased at once, so that little is left to do at the end. */
		ck_assert_uint_gt(world->daemon->registry.leases, leased);
		leased = world->daemon->registry.leases;
	}
	ck_assert_uint_gt(answers, 1);
	expect_list(&c[0], &list);
	expect_list(&c[1], &list);
	expect_together(&c[0], &c[1]);
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_asked(KERNEL_REGISTER, list.n);
}

/* --- clients that leave --- */

TEST(waiting_client_takes_over_from_one_that_leaves)
{
	static const unsigned events[] = { N, 200 };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		GUARDED(world);
		CLIENTS(c, world, 3);
		struct list list = ask_alike(c, 3, events[i]);

		if (events[i] > N)
			answer_one();
		break_connection(&c[0]);
		check_books(world->daemon);
		hold_no_more();
		expect_list(&c[1], &list);
		expect_list(&c[2], &list);
		expect_together(&c[1], &c[2]);
		look_at_lingering(world);
		ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
		ck_assert_uint_eq(query(&c[1]).lingering, 0);
		ck_assert_uint_eq(count_fake_streams(), 1);
	}
}

TEST(waiting_client_that_leaves_is_left_out)
{
	for (unsigned i = 0; i < 2; i++) {
		GUARDED(world);
		CLIENTS(c, world, 3);
		struct list list = ask_alike(c, 3, N);

		/* Before the answer, or just before its turn. */
		if (i == 1) {
			answer_one();
			ck_assert(c[1].client->asks_again);
		}
		break_connection(&c[1]);
		check_books(world->daemon);
		hold_no_more();
		expect_list(&c[0], &list);
		expect_list(&c[2], &list);
		ck_assert_uint_eq(count_members(&c[0]), 2);
		expect_charged(world, N, 2 * N);
	}
}

TEST(clients_that_all_leave_while_waiting_leave_nothing)
{
	GUARDED(world);
	CLIENTS(c, world, 3);

	ask_alike(c, 3, N);
	break_connection(&c[1]);
	break_connection(&c[0]);
	break_connection(&c[2]);
	expect_charged(world, N, 0);
	hold_no_more();
	expect_all_gone(world);
}

/* The daemon finds that out with the answer. */
TEST(first_client_that_has_hung_up_leaves_a_bundle)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = ask_alike(c, 2, N);

	end_hang_up(&c[0]);
	hold_no_more();
	expect_list(&c[1], &list);
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_asked(KERNEL_REGISTER, N);
	ck_assert_uint_eq(count_members(&c[1]), 1);
	expect_charged(world, N, N);
}

/* --- refusals --- */

TEST(next_client_asks_when_the_first_is_refused)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = ask_alike(c, 3, N);

	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
	answer_one();
	expect_list_refused(&c[0], &list, REFUSAL_TROUBLE);
	hold_no_more();
	expect_list(&c[1], &list);
	expect_list(&c[2], &list);
	ck_assert_uint_eq(count_members(&c[0]), 0);
	expect_together(&c[1], &c[2]);
	expect_charged(world, N, 2 * N);
}

/* In the order in which they came. */
TEST(each_client_asks_for_what_the_others_were_refused)
{
	GUARDED(world);
	CLIENTS(c, world, 5);
	struct list list = ask_alike(c, 4, N);

	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 3, 1);
	answer_one();
	expect_list_but(&c[0], &list, 3, REFUSAL_PAGE_FULL);
	expect_under_way(1);
	ck_assert_uint_eq(TAILQ_FIRST(&script.under_way)->n, 1);
	say_list(&c[4], &list);
	for (unsigned i = 1; i < 3; i++) {
		refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
		answer_one();
		expect_list_but(&c[i], &list, 3, REFUSAL_PAGE_FULL);
		expect_silence(&c[i + 1]);
	}
	ck_assert_uint_eq(count_members(&c[0]) + count_members(&c[1]) + count_members(&c[2]), 0);
	answer_one();
	expect_list(&c[3], &list);
	expect_list(&c[4], &list);
	expect_together(&c[3], &c[4]);
	expect_asked(KERNEL_STREAM_NEW, 1);
	expect_charged(world, N, 5 * N - 3);
}

/* So slow that the daemon turns to other work after each request. */
static void slow_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	usleep((useconds_t)(TURN_TIME * 1500000));
	fake_ops.submit(kernel, calls, n, done, data);
}

/* Its request lies in its socket already, so no new packet wakes the daemon. */
TEST(repeated_request_is_served_without_a_new_packet)
{
	static struct kernel_ops slow_ops;
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = ask_alike(c, 3, N);

	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
	answer_one();
	slow_ops = fake_ops;
	slow_ops.submit = slow_submit;
	script.real = &slow_ops;
	script.holds = false;
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert(!c[1].client->asks_again);
	ck_assert(c[2].client->asks_again);
	ck_assert(ev_is_active(&world->daemon->connections.w_busy));
	turn(world);
	ck_assert(!ev_is_active(&world->daemon->connections.w_busy));
	script.real = &fake_ops;
	expect_list_refused(&c[0], &list, REFUSAL_TROUBLE);
	expect_list(&c[1], &list);
	expect_list(&c[2], &list);
	expect_together(&c[1], &c[2]);
}

TEST(guard_that_goes_separates_waiting_clients)
{
	for (unsigned required = 0; required < 2; required++) {
		_cleanup_(world_leave) struct world *world = world_on(required ? "require" : "prefer", true);
		CLIENTS(c, world, 3);
		struct list list = ask_alike(c, 3, N);

		set_guard(world, false);
		hold_no_more();
		for (unsigned i = 0; i < 3; i++)
			if (required)
				expect_list_refused(&c[i], &list, REFUSAL_TROUBLE);
			else
				expect_list(&c[i], &list);
		ck_assert_uint_eq(count_members(&c[0]), 0);
		look_at_lingering(world);
		ck_assert_uint_eq(count_fake_streams(), required ? 0 : 3);
	}
}

/* --- the end --- */

TEST(daemon_with_waiting_requests_ends_well)
{
	GUARDED(world);
	CLIENTS(c, world, 5);
	struct list list = list_of(300, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	ask_alike(&c[2], 3, 200);
	break_connection(&c[3]);
	answer_one();
	world_end(world);
	expect_under_way(0);
}

TEST(daemon_with_repeated_requests_ends_well)
{
	GUARDED(world);
	CLIENTS(c, world, 3);

	ask_alike(c, 3, N);
	answer_one();
	ck_assert(c[1].client->asks_again);
	world_end(world);
}

/* --- memory --- */

enum outcome { GRANTED, REFUSED, DISCONNECTED };

/* One packet, which is right, and no other. */
static enum outcome hear_outcome(struct end *end, const struct list *list)
{
	static struct answer answer[WIRE_BATCH_MAX];
	struct answers answers;
	unsigned granted = 0;

	ck_assert(hear(end));
	check_books(end->world->daemon);
	if (end->heard.message.kind == KIND_ERROR) {
		ck_assert(!hear(end));
		ck_assert_int_eq(end->heard.size, 0);
		return DISCONNECTED;
	}
	ck_assert_int_eq(decode_registered(end->heard.message.body, &answers), 0);
	ck_assert_uint_eq(answers.count, list->n);
	for (unsigned i = 0; i < list->n; i++) {
		ck_assert(answers_next(&answers, &answer[i]));
		if (answer[i].refusal == REFUSAL_NONE)
			expect_right(&answer[i], list->event[i]);
		else
			ck_assert_str_eq(refusal_name(answer[i].refusal), refusal_name(REFUSAL_TROUBLE));
		granted += answer[i].refusal == REFUSAL_NONE;
	}
	ck_assert_uint_eq(end->heard.message.streams > 0, granted > 0);
	expect_silence(end);
	return granted == list->n ? GRANTED : REFUSED;
}

/* Whether the last `allocations` were not enough. */
static bool wanted_more(long *left)
{
	bool enough = memory_comes_back ? *left >= 0 : *left > 0;

	*left = -1;
	return !enough;
}

static bool say_short_of_memory(struct end *end, const struct list *list, long allocations)
{
	allocations_given = allocations;
	say_list(end, list);
	return wanted_more(&allocations_given);
}

/* One thing with that many allocations, in a world without clients. Whether more were wanted; `otherwise` counts other outcomes. */
typedef bool attempt(struct world *, long allocations, unsigned *otherwise);

/* Each allocation in turn finds no memory, and then also all after it. */
static void try_with_ever_more_memory(attempt *try)
{
	enum { ALLOCATIONS_MAX = 1000 };
	unsigned otherwise = 0;

	ev_set_allocator(evs_own_memory);
	for (unsigned mode = 0; mode < 2; mode++) {
		GUARDED(world);
		bool wanted = true;

		memory_comes_back = mode;
		for (long n = 0; wanted; n++) {
			ck_assert_int_lt(n, ALLOCATIONS_MAX);
			wanted = try(world, n, &otherwise);
			expect_all_gone(world);
		}
	}
	ck_assert_uint_gt(otherwise, 0);
}

static bool is_together(const struct end *one, const struct end *other)
{
	return one->client->holder.bundle == other->client->holder.bundle;
}

/* With many events the kernel begins before all of them are decided. */
static bool first_asks_for(unsigned events, struct world *world, long allocations, unsigned *otherwise)
{
	CLIENTS(c, world, 3);
	struct list list = list_of(0, events);
	bool wanted;

	hold();
	wanted = say_short_of_memory(&c[0], &list, allocations);
	say_list(&c[1], &list);
	hold_no_more();
	if (hear_outcome(&c[0], &list) == GRANTED)
		*otherwise += count_members(&c[0]) == 0;
	expect_list(&c[1], &list);
	get_list(&c[2], &list);
	ck_assert(wanted || (is_together(&c[0], &c[1]) && is_together(&c[0], &c[2])));
	return wanted;
}

static bool first_asks(struct world *world, long allocations, unsigned *otherwise)
{
	return first_asks_for(N, world, allocations, otherwise);
}

static bool first_asks_for_many(struct world *world, long allocations, unsigned *otherwise)
{
	return first_asks_for(60, world, allocations, otherwise);
}

static bool first_is_answered(struct world *world, long allocations, unsigned *otherwise)
{
	CLIENTS(c, world, 2);
	struct list list = ask_alike(c, 2, N);
	bool wanted;

	allocations_left = allocations;
	answer_batch(TAILQ_FIRST(&script.under_way));
	wanted = wanted_more(&allocations_left);
	hold_no_more();
	if (hear_outcome(&c[0], &list) == GRANTED)
		*otherwise += count_members(&c[0]) == 0;
	expect_list(&c[1], &list);
	ck_assert(wanted || is_together(&c[0], &c[1]));
	return wanted;
}

static bool second_joins_on_two_files(struct world *world, long allocations, unsigned *otherwise)
{
	CLIENTS(c, world, 3);
	struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
	bool wanted;

	get_list(&c[0], &before);
	get_list(&c[1], &list);
	wanted = say_short_of_memory(&c[2], &list, allocations);
	*otherwise += hear_outcome(&c[2], &list) != GRANTED || !is_together(&c[1], &c[2]);
	ck_assert_uint_eq(query(&c[1]).leases, list.n);
	return wanted;
}

static bool release_short_of_memory(struct end *end, const struct granted *granted, long allocations, unsigned *cut)
{
	unsigned before = query(end).leases;
	bool wanted;

	allocations_given = allocations;
	say_release(end, granted->answer[3].bit);
	wanted = wanted_more(&allocations_given);
	ck_assert(hear(end));
	check_books(end->world->daemon);
	if (end->heard.message.kind == KIND_ERROR) {
		++*cut;
		return true;
	}
	ck_assert_uint_eq(end->heard.message.kind, KIND_RELEASED);
	ck_assert_uint_eq(query(end).leases, before - 1);
	return wanted;
}

static bool member_releases(struct world *world, long allocations, unsigned *otherwise)
{
	CLIENTS(c, world, 2);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), again;
	bool wanted;

	get_list(&c[1], &list);
	get(&c[1], "event_50 u32 x");
	wanted = release_short_of_memory(&c[1], &one, allocations, otherwise);
	again = get_list(&c[0], &list);
	expect_same_answers(&one, &again, N);
	ck_assert_uint_eq(query(&c[0]).leases, N);
	return wanted;
}

#define SHORT_OF_MEMORY(name, attempt)                                                                                 \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		try_with_ever_more_memory(attempt);                                                                    \
	}

SHORT_OF_MEMORY(short_first_request_is_answered_alone, first_asks)
SHORT_OF_MEMORY(short_long_request_is_answered_alone, first_asks_for_many)
SHORT_OF_MEMORY(short_answer_is_a_refusal, first_is_answered)
SHORT_OF_MEMORY(short_member_gets_no_file_for_nothing, second_joins_on_two_files)
SHORT_OF_MEMORY(short_release_disconnects_one_member, member_releases)
