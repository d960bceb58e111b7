/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What programs of one tenant and user ask for in the same words: they hold it together, and who asks while the first one is
 * being answered waits for that. Whoever asks otherwise is answered by himself, and gets the same. After each answer the
 * books are checked, and that what was answered is what the kernel has.
 */

#include <fcntl.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"
#include "tests/unit/books.h"

enum { LIST_MAX = STREAM_EVENTS_MAX + BUNDLE_EVENTS_MIN };

/* --- lists of events --- */

struct list {
	uint16_t flags;
	unsigned n;
	unsigned event[LIST_MAX];
};

struct granted {
	struct answer answer[LIST_MAX];
};

static struct list list_of(unsigned first, unsigned n)
{
	struct list list = { .n = n };

	for (unsigned i = 0; i < n; i++)
		list.event[i] = first + i;
	return list;
}

static struct list usual(void)
{
	return list_of(0, BUNDLE_EVENTS_MIN);
}

static struct list backwards(const struct list *list)
{
	struct list other = *list;

	for (unsigned i = 0; i < list->n; i++)
		other.event[i] = list->event[list->n - 1 - i];
	return other;
}

static void describe(char text[TEXT_MAX], unsigned event)
{
	snprintf(text, TEXT_MAX, "event_%u u32 x", event);
}

static void say_list(struct end *end, const struct list *list)
{
	static char text[LIST_MAX][TEXT_MAX];
	static const char *batch[LIST_MAX];

	for (unsigned i = 0; i < list->n; i++) {
		describe(text[i], list->event[i]);
		batch[i] = text[i];
	}
	say_register(end, list->flags, batch, list->n);
}

/* It is what the kernel has there. */
static void expect_right(const struct answer *answer, unsigned event)
{
	char text[TEXT_MAX];

	describe(text, event);
	ck_assert_uint_eq(answer->refusal, REFUSAL_NONE);
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && fake.slot[i].stream == answer->stream &&
		    fake.slot[i].index == answer->index && fake.slot[i].bit == answer->bit &&
		    streq(fake.slot[i].text, text))
			return;
	ck_abort_msg("%s is not at index %u of stream %u", text, answer->index, answer->stream);
}

static struct granted expect_list(struct end *end, const struct list *list)
{
	struct granted granted = { 0 };

	expect_answers(end, granted.answer, list->n);
	ck_assert_uint_eq(end->heard.message.serial, end->serial);
	for (unsigned i = 0; i < list->n; i++)
		expect_right(&granted.answer[i], list->event[i]);
	check_books(end->world->daemon);
	return granted;
}

static struct granted get_list(struct end *end, const struct list *list)
{
	say_list(end, list);
	return expect_list(end, list);
}

static void expect_same_answers(const struct granted *one, const struct granted *other, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		expect_same_answer(&one->answer[i], &other->answer[i]);
}

static void say_release_all(struct end *end, const struct granted *granted, unsigned n)
{
	struct packet packet = begin(end, KIND_RELEASE);
	size_t mark = encode_release(&packet);

	for (unsigned i = 0; i < n; i++)
		encode_release_bit(&packet, granted->answer[i].bit);
	encode_count(&packet, mark, (uint16_t)n);
	say(end, &packet);
}

static void expect_all_released(struct end *end, unsigned n)
{
	struct wire_released released;

	ck_assert_int_eq(decode_released(expect(end, KIND_RELEASED)->body, &released), 0);
	ck_assert_uint_eq(released.released, n);
	ck_assert_uint_eq(released.not_held, 0);
	check_books(end->world->daemon);
}

static void release_all(struct end *end, const struct granted *granted, unsigned n)
{
	say_release_all(end, granted, n);
	expect_all_released(end, n);
}

/* Leaves so many events on the client's stream that it serves nobody new. */
static void spoil_stream(struct end *end)
{
	struct list list = list_of(100, STREAM_DEAD_MIN + 1);
	struct granted granted = get_list(end, &list);

	release_all(end, &granted, list.n);
}

/* --- who holds what with whom --- */

static unsigned count_company(const struct end *end)
{
	return end->client->holder.bundle ? end->client->holder.bundle->n_members : 0;
}

static void expect_together(const struct end *one, const struct end *other)
{
	ck_assert_ptr_nonnull(one->client->holder.bundle);
	ck_assert_ptr_eq(one->client->holder.bundle, other->client->holder.bundle);
}

static void expect_apart(const struct end *one, const struct end *other)
{
	ck_assert(!one->client->holder.bundle || one->client->holder.bundle != other->client->holder.bundle);
}

static void expect_none(const struct end *end)
{
	ck_assert_ptr_null(end->client->holder.bundle);
}

/* --- in the same words --- */

/* Even with the kernel busy. */
TEST(who_asks_in_the_words_of_a_sibling_gets_the_same_and_the_kernel_is_not_asked)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), other;
	unsigned calls = count_calls();

	hold();
	other = get_list(&second, &list);
	ck_assert_uint_eq(count_calls() + script.n_under_way, calls);
	expect_same_answers(&one, &other, list.n);
	expect_together(&first, &second);
	ck_assert(is_same_file(first.stream, second.stream));
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
	ck_assert_uint_eq(query(&second).events, list.n);
	ck_assert_uint_eq(query(&second).leases, list.n);
}

/* Its share of the stream. */
TEST(one_more_costs_one_allocation_however_long_the_list)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = list_of(0, STREAM_EVENTS_MAX);

	get_list(&first, &list);
	allocations_given = 1;
	get_list(&second, &list);
	ck_assert_int_eq(allocations_given, 0);
	allocations_given = -1;
	get_list(&third, &list);
	expect_together(&first, &second);
	expect_together(&first, &third);
}

TEST(fewer_than_eight_are_asked_for_one_by_one)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list few = list_of(0, BUNDLE_EVENTS_MIN - 1), enough = list_of(50, BUNDLE_EVENTS_MIN);
	struct granted one = get_list(&first, &few), other = get_list(&second, &few);

	expect_same_answers(&one, &other, few.n);
	expect_none(&first);
	expect_none(&second);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * few.n);
	release_all(&first, &one, few.n);
	release_all(&second, &other, few.n);
	get_list(&first, &enough);
	get_list(&second, &enough);
	expect_together(&first, &second);
}

TEST(in_another_order_it_is_another_list_of_the_same_events)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual(), other = backwards(&list);
	struct granted one = get_list(&first, &list), two;
	unsigned calls = count_calls();

	two = get_list(&second, &other);
	for (unsigned i = 0; i < list.n; i++)
		expect_same_answer(&one.answer[i], &two.answer[list.n - 1 - i]);
	expect_apart(&first, &second);
	get_list(&third, &other);
	expect_together(&second, &third);
	ck_assert_uint_eq(count_calls(), calls);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(world->daemon->registry.leases, 3 * list.n);
}

TEST(another_user_gets_a_file_of_its_own_and_shares_that_with_its_own)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	WELCOMED_AS(another, world, 1, getuid() + 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), two = get_list(&other, &list);

	expect_apart(&first, &other);
	ck_assert(!is_same_file(first.stream, other.stream));
	ck_assert_uint_eq(one.answer[0].bit, two.answer[0].bit);
	get_list(&another, &list);
	expect_together(&other, &another);
	ck_assert(is_same_file(other.stream, another.stream));
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(query(&first).events, list.n);
}

TEST(another_tenant_gets_a_file_of_its_own_and_pays_for_it)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(other, world, 2);
	struct list list = usual();

	get_list(&first, &list);
	get_list(&other, &list);
	expect_apart(&first, &other);
	ck_assert(!is_same_file(first.stream, other.stream));
	ck_assert_uint_eq(query(&other).events, list.n);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
}

TEST(what_shall_persist_is_asked_of_the_kernel_for_each)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();

	list.flags = REGISTER_PERSIST;
	get_list(&first, &list);
	get_list(&second, &list);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 2 * list.n);
	expect_none(&first);
	expect_none(&second);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
	world_end(world);
}

TEST(of_many_formats_it_is_another_list)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual(), many = usual();
	struct granted one, two;

	many.flags = REGISTER_MULTI_FORMAT;
	one = get_list(&first, &list);
	two = get_list(&second, &many);
	ck_assert_uint_ne(one.answer[0].bit, two.answer[0].bit);
	get_list(&third, &many);
	expect_apart(&first, &second);
	expect_together(&second, &third);
	ck_assert_uint_eq(world->daemon->registry.machine.common, 2 * list.n);
}

TEST(who_holds_something_already_is_answered_one_by_one)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), other;
	uint32_t bit = get(&second, "besides u32 x").bit;

	other = get_list(&second, &list);
	expect_same_answers(&one, &other, list.n);
	expect_none(&second);
	ck_assert_uint_eq(query(&second).leases, list.n + 1);
	/* And nobody finds what it holds besides. */
	release(&second, bit);
	release_all(&second, &other, list.n);
	get_list(&second, &list);
	expect_together(&first, &second);
}

TEST(a_list_that_names_one_event_twice_is_answered_one_by_one)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = list_of(0, BUNDLE_EVENTS_MIN + 1);
	struct granted one, other;

	list.event[list.n - 1] = 0;
	one = get_list(&first, &list);
	other = get_list(&second, &list);
	expect_same_answers(&one, &other, list.n);
	expect_same_answer(&one.answer[0], &one.answer[list.n - 1]);
	expect_none(&second);
	ck_assert_uint_eq(query(&second).leases, list.n - 1);
}

TEST(a_list_of_which_something_is_refused_is_answered_one_by_one)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 2);
	struct end *ends[] = { &first, &second };
	struct answer answers[BUNDLE_EVENTS_MIN];
	struct list list = usual();

	/* One name of these is another's. */
	script.kernel->facts.flags = 0;
	get(&other, "event_3 u64 other");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		say_list(ends[i], &list);
		expect_answers(ends[i], answers, list.n);
		for (unsigned j = 0; j < list.n; j++)
			if (j == 3)
				ck_assert_uint_eq(answers[j].refusal, REFUSAL_NAME_TAKEN);
			else
				expect_right(&answers[j], j);
		check_books(world->daemon);
		expect_none(ends[i]);
		ck_assert_uint_eq(query(ends[i]).leases, list.n - 1);
	}
	ck_assert_uint_eq(query(&first).events, list.n - 1);
}

/* Some of it was there, on a file that takes no more, and the rest is on the next. */
TEST(a_list_on_two_files_is_given_with_both)
{
	GUARDED(world);
	WELCOMED(old, world, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
	struct granted one, other;
	unsigned calls;

	get_list(&old, &before);
	one = get_list(&first, &list);
	ck_assert_uint_ne(one.answer[0].stream, one.answer[9].stream);
	calls = count_calls();
	other = get_list(&second, &list);
	ck_assert_uint_eq(count_calls(), calls);
	expect_same_answers(&one, &other, list.n);
	expect_together(&first, &second);
	ck_assert_uint_eq(second.heard.fds.count, 2);
	ck_assert_uint_ne(second.heard.message.stream[0], second.heard.message.stream[1]);
	for (unsigned i = 0; i < list.n; i++)
		ck_assert(other.answer[i].stream == second.heard.message.stream[0] ||
			  other.answer[i].stream == second.heard.message.stream[1]);
	/* The second file is theirs alone, the first one is not. */
	end_hang_up(&first);
	release_all(&second, &other, list.n);
	ck_assert_ptr_null(LIST_FIRST(&second.client->holder.shares));
	ck_assert_uint_eq(query(&old).leases, before.n);
	check_books(world->daemon);
}

/* --- who holds it --- */

static struct cursor row_of_first_event(struct end *admin, uint16_t n)
{
	struct cursor rows = ask_for_rows(admin, KIND_EVENTS, n);

	return next_row(&rows);
}

static bool is_listed(struct cursor holders, pid_t pid)
{
	struct cursor holder;

	while (row_next_item(&holders, &holder) > 0)
		if (row_get_u64(holder, "pid") == (uint64_t)pid)
			return true;
	return false;
}

static void expect_holders(struct end *admin, uint16_t events, unsigned n)
{
	struct cursor row = row_of_first_event(admin, events);

	expect_string(row, "event", "event_0");
	ck_assert_uint_eq(row_get_u64(row, "holders_total"), n);
	ck_assert_uint_eq(row_get_u64(row, "lingering"), n == 0);
	ck_assert_uint_eq(count_items(holders_of(row)), MIN(n, (unsigned)HOLDERS_MAX));
}

static void expect_leases(struct end *admin, unsigned n)
{
	struct cursor rows = ask_for_rows(admin, KIND_STATUS, 1);

	ck_assert_uint_eq(row_get_u64(next_row(&rows), "leases"), n);
	ck_assert_uint_eq(admin->world->daemon->registry.leases, n);
}

TEST(all_who_hold_it_are_listed_and_counted_and_who_has_left_is_not)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(alone, world, 1);
	struct list list = usual();
	struct cursor holders;

	get(&alone, "event_0 u32 x");
	get_list(&first, &list);
	get_list(&second, &list);
	get_list(&third, &list);
	first.client->holder.pid = 11;
	second.client->holder.pid = 22;
	third.client->holder.pid = 33;
	alone.client->holder.pid = 44;
	expect_holders(&admin, (uint16_t)list.n, 4);
	expect_leases(&admin, 3 * list.n + 1);
	holders = holders_of(row_of_first_event(&admin, (uint16_t)list.n));
	for (pid_t pid = 11; pid <= 44; pid += 11)
		ck_assert(is_listed(holders, pid));

	end_hang_up(&second);
	check_books(world->daemon);
	expect_holders(&admin, (uint16_t)list.n, 3);
	expect_leases(&admin, 2 * list.n + 1);
	holders = holders_of(row_of_first_event(&admin, (uint16_t)list.n));
	for (pid_t pid = 11; pid <= 44; pid += 11)
		ck_assert_int_eq(is_listed(holders, pid), pid != 22);
	ck_assert_uint_eq(query(&third).leases, list.n);

	end_hang_up(&first);
	end_hang_up(&alone);
	expect_holders(&admin, (uint16_t)list.n, 1);
	expect_leases(&admin, list.n);
	end_hang_up(&third);
	expect_leases(&admin, 0);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	expect_holders(&admin, (uint16_t)list.n, 0);
}

/* Whoever else holds it by himself is counted and, beyond the limit, not named. */
TEST(of_very_many_holders_some_are_named_and_all_are_counted)
{
	enum { MANY = HOLDERS_MAX + 1 };
	static struct end end[MANY];
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(alone, world, 1);
	struct list list = usual();

	get(&alone, "event_0 u32 x");
	for (unsigned i = 0; i < MANY; i++) {
		end[i] = end_welcomed(world, 1);
		get_list(&end[i], &list);
		if (i == HOLDERS_MAX - 3 || i == HOLDERS_MAX - 2)
			expect_holders(&admin, (uint16_t)list.n, i + 2);
	}
	ck_assert_uint_eq(count_company(&end[0]), MANY);
	expect_holders(&admin, (uint16_t)list.n, MANY + 1);
	expect_leases(&admin, MANY * list.n + 1);
	for (unsigned i = 0; i < MANY; i++)
		end_deinit(&end[i]);
	expect_leases(&admin, 1);
	check_books(world->daemon);
}

/* --- on one connection --- */

TEST(who_asks_for_the_same_again_is_answered_the_same_and_holds_no_more)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), again;
	unsigned calls = count_calls();

	get_list(&second, &list);
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = i == 0 ? &first : &second;

		again = get_list(end, &list);
		expect_same_answers(&one, &again, list.n);
		/* It has the file already. */
		ck_assert_uint_eq(end->heard.message.streams, 0);
		ck_assert_uint_eq(query(end).leases, list.n);
	}
	ck_assert_uint_eq(count_calls(), calls);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
	expect_together(&first, &second);
}

TEST(who_asks_for_more_holds_the_rest_besides_and_the_others_do_not)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual(), more = list_of(BUNDLE_EVENTS_MIN / 2, BUNDLE_EVENTS_MIN);
	const unsigned both = BUNDLE_EVENTS_MIN / 2, all = list.n + more.n - both;
	struct granted one = get_list(&first, &list), other;
	unsigned calls;

	get_list(&second, &list);
	calls = script.asked[KERNEL_REGISTER];
	other = get_list(&second, &more);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], calls + more.n - both);
	expect_same_answer(&one.answer[both], &other.answer[0]);
	expect_together(&first, &second);
	ck_assert_uint_eq(query(&second).leases, all);
	ck_assert_uint_eq(query(&first).leases, list.n);
	ck_assert_uint_eq(query(&first).events, all);
	/* For others it is a list like any other. */
	get_list(&third, &more);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], calls + more.n - both);
	expect_apart(&second, &third);
	/* Of what it holds besides it may give back what it likes, too. */
	release(&second, other.answer[more.n - 1].bit);
	ck_assert_uint_eq(query(&second).leases, all - 1);
	end_hang_up(&second);
	check_books(world->daemon);
	ck_assert_uint_eq(query(&first).leases, list.n);
	ck_assert_uint_eq(query(&third).leases, more.n);
	ck_assert_uint_eq(query(&third).lingering, 0);
}

/* --- what is given back --- */

TEST(what_one_gives_back_the_others_keep)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list);
	unsigned calls;

	get_list(&second, &list);
	get_list(&third, &list);
	calls = count_calls();
	release(&second, one.answer[0].bit);
	check_books(world->daemon);
	ck_assert_uint_eq(count_calls(), calls);
	expect_none(&second);
	ck_assert_uint_eq(query(&second).leases, list.n - 1);
	ck_assert_uint_eq(query(&first).leases, list.n);
	ck_assert_uint_eq(query(&first).lingering, 0);
	ck_assert_uint_eq(world->daemon->registry.leases, 3 * list.n - 1);
	expect_holders(&admin, (uint16_t)list.n, 2);
	expect_together(&first, &third);
	ck_assert_uint_eq(count_company(&first), 2);
	/* It holds it no more, and gets it again where it was. */
	say_release(&second, one.answer[0].bit);
	expect_released(&second, 0);
	expect_same_answer(&one.answer[0], &(struct answer){ .bit = get(&second, "event_0 u32 x").bit,
							     .stream = one.answer[0].stream,
							     .index = one.answer[0].index });
	ck_assert_uint_eq(count_calls(), calls);
	/* Others go on coming. */
	get_list(&fourth, &list);
	expect_together(&first, &fourth);
	ck_assert_uint_eq(world->daemon->registry.leases, 4 * list.n);
}

TEST(who_gives_back_all_leaves_the_others_with_all)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list);
	unsigned calls;

	get_list(&second, &list);
	calls = count_calls();
	release_all(&first, &one, list.n);
	ck_assert_uint_eq(count_calls(), calls);
	ck_assert_uint_eq(query(&first).leases, 0);
	ck_assert_ptr_null(LIST_FIRST(&first.client->holder.shares));
	ck_assert_uint_eq(query(&second).leases, list.n);
	ck_assert_uint_eq(query(&second).lingering, 0);
	/* It holds nothing now, and may hold it all with them again. */
	first.stream = fd_close(first.stream);
	get_list(&first, &list);
	expect_together(&first, &second);
	ck_assert(is_same_file(first.stream, second.stream));
}

/* As the kernel lets go of it at once, or only with the file. */
TEST(of_the_bit_that_its_last_holder_gives_back_the_kernel_is_asked_to_let_go)
{
	static const int results[] = { KERNEL_OK, KERNEL_E_LINGERS };

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		GUARDED(world);
		WELCOMED(end, world, 1);
		struct list list = usual();
		struct granted granted = get_list(&end, &list);
		bool goes = results[i] == KERNEL_OK;

		refuse(KERNEL_RELEASE, results[i], 0, 1);
		hold();
		release(&end, granted.answer[2].bit);
		ck_assert_uint_eq(script.n_under_way, 1);
		ck_assert_uint_eq(TAILQ_FIRST(&script.under_way)->n, 1);
		ck_assert_uint_eq(TAILQ_FIRST(&script.under_way)->calls[0].index, granted.answer[2].index);
		hold_no_more();
		check_books(world->daemon);
		ck_assert_uint_eq(script.asked[KERNEL_RELEASE], 1);
		ck_assert_uint_eq(query(&end).leases, list.n - 1);
		ck_assert_uint_eq(query(&end).events, list.n - goes);
		ck_assert_uint_eq(query(&end).lingering, !goes);
	}
}

TEST(when_the_last_gives_back_all_the_kernel_is_asked_once_to_let_go_of_each)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list);
	const struct batch *batch;

	get_list(&second, &list);
	release_all(&first, &one, list.n);
	ck_assert_uint_eq(script.asked[KERNEL_RELEASE], 0);
	hold();
	say_release_all(&second, &one, list.n);
	batch = TAILQ_FIRST(&script.under_way);
	ck_assert_uint_eq(batch->n, list.n);
	for (unsigned i = 0; i < list.n; i++) {
		ck_assert_uint_eq(batch->calls[i].op, KERNEL_RELEASE);
		ck_assert_uint_eq(batch->calls[i].index, one.answer[i].index);
	}
	hold_no_more();
	expect_all_released(&second, list.n);
	ck_assert_uint_eq(script.asked[KERNEL_RELEASE], list.n);
	ck_assert_uint_eq(query(&second).leases, 0);
	ck_assert_uint_eq(world->daemon->registry.leases, 0);
}

TEST(what_nobody_holds_is_not_given_back_and_the_rest_stays)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 1);
	struct list list = usual();

	get_list(&first, &list);
	get_list(&second, &list);
	say_release(&second, get(&other, "event_50 u32 x").bit);
	expect_released(&second, 0);
	check_books(world->daemon);
	ck_assert_uint_eq(query(&second).leases, list.n);
	ck_assert_uint_eq(query(&other).leases, 1);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n + 1);
}

/* --- who leaves --- */

TEST(when_the_first_leaves_the_others_keep_it_and_more_may_come)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();
	unsigned calls;

	get_list(&first, &list);
	get_list(&second, &list);
	calls = count_calls();
	end_hang_up(&first);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, list.n);
	get_list(&third, &list);
	ck_assert_uint_eq(count_calls(), calls);
	expect_together(&second, &third);
	ck_assert_uint_eq(query(&third).lingering, 0);
}

TEST(when_the_last_has_left_all_is_charged_until_no_copy_is_open)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(witness, world, 1);
	struct list list = usual();

	get_list(&first, &list);
	get_list(&second, &list);
	second.stream = fd_close(second.stream);
	end_hang_up(&second);
	ck_assert_uint_eq(query(&witness).lingering, 0);
	end_hang_up(&first);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, 0);
	ck_assert_uint_eq(query(&witness).events, list.n);
	ck_assert_uint_eq(query(&witness).lingering, list.n);
	ck_assert(look_at_lingering(world));
	first.stream = fd_close(first.stream);
	ck_assert(!look_at_lingering(world));
	expect_no_charges(world);
	ck_assert_uint_eq(count_fake_streams(), 0);
	/* Nor is it found any more. */
	get_list(&witness, &list);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 2);
}

/* Who comes while a copy is still open pays nothing, and gets a file of its own. */
TEST(who_comes_when_all_have_left_gets_a_new_file_and_the_same_charge)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), other;

	end_hang_up(&first);
	other = get_list(&second, &list);
	ck_assert_uint_ne(one.answer[0].stream, other.answer[0].stream);
	ck_assert_uint_eq(one.answer[0].bit, other.answer[0].bit);
	ck_assert_uint_eq(query(&second).events, list.n);
	ck_assert_uint_eq(query(&second).lingering, 0);
}

/* --- the guard --- */

TEST(when_the_guard_is_gone_nobody_gets_what_others_hold)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), again;

	get_list(&second, &list);
	set_guard(world, false);
	get_list(&third, &list);
	get_list(&fourth, &list);
	expect_none(&third);
	expect_none(&fourth);
	ck_assert(!is_same_file(first.stream, third.stream));
	ck_assert(!is_same_file(first.stream, fourth.stream));
	ck_assert(!is_same_file(third.stream, fourth.stream));
	ck_assert_uint_eq(count_company(&first), 2);
	/* Who had it keeps it. */
	again = get_list(&first, &list);
	expect_same_answers(&one, &again, list.n);
	expect_together(&first, &second);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(world->daemon->registry.leases, 4 * list.n);
}

TEST(what_was_held_without_the_guard_is_nobody_elses_when_it_is_back)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(without, world, 1);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	struct list list = usual();

	get_list(&first, &list);
	set_guard(world, false);
	get_list(&without, &list);
	set_guard(world, true);
	get_list(&other, &list);
	ck_assert(world->daemon->registry.guarded);
	get_list(&third, &list);
	expect_apart(&first, &third);
	ck_assert(!is_same_file(first.stream, third.stream));
	ck_assert(!is_same_file(without.stream, third.stream));
	get_list(&fourth, &list);
	expect_together(&third, &fourth);
	/* The first one's goes without disturbing theirs. */
	end_hang_up(&first);
	check_books(world->daemon);
	ck_assert_uint_eq(count_company(&third), 2);
}

/* From that file alone. */
static void take_guard_from(struct stream *stream)
{
	int fd = fcntl(stream->fd, F_DUPFD_CLOEXEC, 0);

	ck_assert_int_lt(fd, GUARDED_FDS);
	close(stream->fd);
	stream->fd = fd;
}

/* Whichever of them is proved first. */
TEST(one_of_its_files_without_the_guard_is_enough_to_give_none)
{
	for (unsigned i = 0; i < 10; i += 9) {
		GUARDED(world);
		WELCOMED(old, world, 1);
		WELCOMED(first, world, 1);
		WELCOMED(second, world, 1);
		struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
		uint32_t without;
		struct granted granted;

		get_list(&old, &before);
		without = get_list(&first, &list).answer[i].stream;
		take_guard_from(stream_by_number(&world->daemon->registry, without));
		granted = get_list(&second, &list);
		expect_apart(&first, &second);
		ck_assert_uint_eq(second.heard.message.streams, 1);
		for (unsigned j = 0; j < list.n; j++)
			ck_assert_uint_eq(granted.answer[j].stream, second.heard.message.stream[0]);
		ck_assert_uint_ne(granted.answer[0].stream, without);
		ck_assert_uint_eq(query(&first).leases, list.n);
	}
}

static void expect_all_refused(struct end *end, const struct list *list, uint32_t refusal)
{
	struct answer answers[LIST_MAX];

	expect_answers(end, answers, list->n);
	for (unsigned i = 0; i < list->n; i++) {
		ck_assert_str_eq(refusal_name(answers[i].refusal), refusal_name(refusal));
		ck_assert_uint_gt(answers[i].length, 0);
	}
	ck_assert_uint_eq(end->heard.message.streams, 0);
	ck_assert_uint_eq(leases_count(&end->client->holder), 0);
	check_books(end->world->daemon);
}

TEST(with_require_who_asks_alike_without_the_guard_is_refused_and_the_holders_keep_it)
{
	REQUIRED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	get_list(&first, &list);
	get_list(&second, &list);
	set_guard(world, false);
	say_list(&third, &list);
	expect_all_refused(&third, &list, REFUSAL_TROUBLE);
	expect_together(&first, &second);
	ck_assert_uint_eq(query(&second).leases, list.n);
	ck_assert_uint_eq(query(&second).lingering, 0);
}

TEST(a_file_on_which_a_stranger_registered_is_nobody_elses)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();
	uint32_t stream = get_list(&first, &list).answer[0].stream;

	get_list(&second, &list);
	set_guard(world, false);
	get(&third, "event_50 u32 x");
	find_stream(stream)->self_registered = true;
	streams_probe(&world->daemon->registry);
	expect_cut(&first, REFUSAL_SELF_REGISTERED);
	expect_cut(&second, REFUSAL_SELF_REGISTERED);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, 1);
	set_guard(world, true);
	ck_assert_uint_ne(get_list(&third, &list).answer[0].stream, stream);
}

/* --- generations --- */

TEST(what_is_on_a_file_of_dead_events_serves_its_holders_and_the_next_begin_anew)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	WELCOMED(fifth, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), other;

	get_list(&second, &list);
	spoil_stream(&second);
	other = get_list(&third, &list);
	ck_assert_uint_ne(one.answer[0].stream, other.answer[0].stream);
	ck_assert_uint_eq(one.answer[0].bit, other.answer[0].bit);
	expect_apart(&first, &third);
	get_list(&fourth, &list);
	expect_together(&third, &fourth);
	/* What they have they have. */
	other = get_list(&first, &list);
	expect_same_answers(&one, &other, list.n);
	/* The old one is no longer found, nor missed. */
	end_hang_up(&first);
	check_books(world->daemon);
	get_list(&fifth, &list);
	expect_together(&third, &fifth);
	ck_assert_uint_eq(world->daemon->registry.leases, 4 * list.n);
}

TEST(when_the_new_holders_have_left_the_old_ones_still_serve_nobody)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), other;

	get_list(&second, &list);
	spoil_stream(&second);
	get_list(&third, &list);
	third.stream = fd_close(third.stream);
	end_hang_up(&third);
	check_books(world->daemon);
	other = get_list(&fourth, &list);
	ck_assert_uint_ne(one.answer[0].stream, other.answer[0].stream);
	expect_apart(&first, &fourth);
	ck_assert_uint_eq(query(&first).leases, list.n);
}

/* --- while the first one is being answered --- */

TEST(who_asks_alike_while_the_first_is_answered_waits_for_that_and_the_kernel_is_asked_once)
{
	enum { WAITING = 5 };
	static struct end end[WAITING];
	GUARDED(world);
	WELCOMED(first, world, 1);
	struct list list = usual();
	struct granted one, other;

	for (unsigned i = 0; i < WAITING; i++)
		end[i] = end_welcomed(world, 1);
	hold();
	say_list(&first, &list);
	for (unsigned i = 0; i < WAITING; i++) {
		end[i].serial = 100 * (i + 1);
		say_list(&end[i], &list);
	}
	ck_assert_uint_eq(script.n_under_way, 1);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	for (unsigned i = 0; i < WAITING; i++)
		expect_silence(&end[i]);
	check_books(world->daemon);
	answer_one();
	one = expect_list(&first, &list);
	for (unsigned i = 0; i < WAITING; i++) {
		other = expect_list(&end[i], &list);
		ck_assert_uint_eq(end[i].heard.message.serial, 100 * (i + 1) + 1);
		expect_same_answers(&one, &other, list.n);
		expect_together(&first, &end[i]);
		ck_assert(is_same_file(first.stream, end[i].stream));
		expect_silence(&end[i]);
	}
	ck_assert_uint_eq(script.n_under_way, 0);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], list.n);
	ck_assert_uint_eq(world->daemon->registry.leases, (WAITING + 1) * list.n);
	for (unsigned i = 0; i < WAITING; i++)
		end_deinit(&end[i]);
}

/* Fewer than that, another order, another user, another tenant, or besides what is held. */
TEST(who_asks_otherwise_waits_for_nobody)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(fewer, world, 1);
	WELCOMED(otherwise, world, 1);
	WELCOMED_AS(user, world, 1, getuid() + 1);
	WELCOMED(tenant, world, 2);
	WELCOMED(holder, world, 1);
	struct list list = usual(), few = list_of(0, BUNDLE_EVENTS_MIN - 1), other = backwards(&list);
	struct end *ends[] = { &first, &fewer, &otherwise, &user, &tenant, &holder };
	const struct list *lists[] = { &list, &few, &other, &list, &list, &list };

	get(&holder, "event_50 u32 x");
	hold();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		say_list(ends[i], lists[i]);
		ck_assert_uint_eq(script.n_under_way, i + 1);
	}
	hold_no_more();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		expect_list(ends[i], lists[i]);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n + 1);
}

TEST(fewer_than_eight_wait_for_nobody)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = list_of(0, BUNDLE_EVENTS_MIN - 1);

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	ck_assert_uint_eq(script.n_under_way, 2);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&second, &list);
}

/* Each gets a file of its own, whoever else is being answered. */
TEST(where_nothing_guards_the_files_nobody_waits_for_another)
{
	UNGUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	ck_assert_uint_eq(script.n_under_way, 2);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&second, &list);
	expect_none(&first);
	expect_none(&second);
	ck_assert(!is_same_file(first.stream, second.stream));
}

TEST(who_waits_is_not_read_before_it_is_answered)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct wire_account account;

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	second.serial++;
	say_simply(&second, KIND_QUERY);
	say_simply(&second, KIND_QUERY);
	second.serial -= 3;
	expect_silence(&second);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&second, &list);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(decode_account(expect(&second, KIND_ACCOUNT)->body, &account), 0);
		ck_assert_uint_eq(account.leases, list.n);
		ck_assert_uint_eq(second.heard.message.serial, second.serial + 2 + i);
	}
	expect_silence(&second);
}

TEST(two_lists_that_are_under_way_have_nothing_to_do_with_each_other)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	struct list list = usual(), other = list_of(BUNDLE_EVENTS_MIN / 2, BUNDLE_EVENTS_MIN);

	hold();
	say_list(&first, &list);
	say_list(&second, &other);
	say_list(&third, &list);
	say_list(&fourth, &other);
	ck_assert_uint_eq(script.n_under_way, 2);
	answer_one();
	expect_list(&first, &list);
	expect_list(&third, &list);
	expect_silence(&second);
	expect_silence(&fourth);
	answer_one();
	expect_list(&second, &other);
	expect_list(&fourth, &other);
	expect_together(&first, &third);
	expect_together(&second, &fourth);
	expect_apart(&first, &second);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], list.n + other.n);
}

/* The kernel begins before all of it is decided, and is heard of several times. */
TEST(of_a_long_list_nothing_is_answered_before_all_of_it_is)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = list_of(0, 200);
	unsigned answers = 0, leased = 0;

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	for (answer_one(); first.client->task; answer_one(), answers++) {
		expect_silence(&first);
		expect_silence(&second);
		/* But what is there is leased at once, so that little is left to do at the end. */
		ck_assert_uint_gt(world->daemon->registry.leases, leased);
		leased = world->daemon->registry.leases;
	}
	ck_assert_uint_gt(answers, 1);
	expect_list(&first, &list);
	expect_list(&second, &list);
	expect_together(&first, &second);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], list.n);
}

TEST(who_leaves_in_the_middle_of_a_long_list_leaves_it_to_who_waits)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = list_of(0, 200);

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	answer_one();
	break_connection(&first);
	check_books(world->daemon);
	hold_no_more();
	expect_list(&second, &list);
	look_at_lingering(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(query(&second).lingering, 0);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

TEST(who_leaves_while_it_waits_is_not_missed)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	break_connection(&second);
	check_books(world->daemon);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&third, &list);
	ck_assert_uint_eq(count_company(&first), 2);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
}

/* Its turn was about to come. */
TEST(who_leaves_before_it_asks_again_is_not_missed)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	answer_one();
	ck_assert(second.client->asks_again);
	break_connection(&second);
	expect_list(&first, &list);
	expect_list(&third, &list);
	ck_assert_uint_eq(count_company(&first), 2);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
}

TEST(when_the_first_leaves_before_it_is_answered_the_next_who_waits_is_the_first)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	break_connection(&first);
	check_books(world->daemon);
	hold_no_more();
	expect_list(&second, &list);
	expect_list(&third, &list);
	expect_together(&second, &third);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 2 * list.n);
	look_at_lingering(world);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(query(&second).lingering, 0);
	ck_assert_uint_eq(count_fake_streams(), 1);
}

TEST(when_all_leave_before_the_first_is_answered_nothing_is_left)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	break_connection(&second);
	break_connection(&first);
	break_connection(&third);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	hold_no_more();
	expect_all_gone(world);
}

/* Nobody looks at its connection before. */
TEST(a_first_one_that_turns_out_to_have_hung_up_leaves_its_answer_to_the_others)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	end_hang_up(&first);
	hold_no_more();
	expect_list(&second, &list);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], list.n);
	ck_assert_uint_eq(count_company(&second), 1);
	ck_assert_uint_eq(world->daemon->registry.leases, list.n);
}

TEST(when_the_first_is_refused_all_the_next_asks_by_itself)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
	answer_one();
	expect_all_refused(&first, &list, REFUSAL_TROUBLE);
	hold_no_more();
	expect_list(&second, &list);
	expect_list(&third, &list);
	expect_none(&first);
	expect_together(&second, &third);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
	ck_assert_uint_eq(world->daemon->registry.leases, 2 * list.n);
}

static void expect_all_but(struct end *end, const struct list *list, unsigned refused, uint32_t refusal)
{
	struct answer answers[LIST_MAX];

	expect_answers(end, answers, list->n);
	for (unsigned i = 0; i < list->n; i++)
		if (i == refused)
			ck_assert_str_eq(refusal_name(answers[i].refusal), refusal_name(refusal));
		else
			expect_right(&answers[i], list->event[i]);
	ck_assert_uint_eq(leases_count(&end->client->holder), list->n - 1);
	expect_none(end);
	check_books(end->world->daemon);
}

/* Each in its turn, in the order in which they came; and who comes meanwhile, after them. */
TEST(when_the_first_is_refused_something_the_next_asks_for_that_by_itself)
{
	enum { REFUSED = 3 };
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	WELCOMED(late, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	say_list(&fourth, &list);
	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, REFUSED, 1);
	answer_one();
	expect_all_but(&first, &list, REFUSED, REFUSAL_PAGE_FULL);
	ck_assert_uint_eq(script.n_under_way, 1);
	ck_assert_uint_eq(TAILQ_FIRST(&script.under_way)->n, 1);
	say_list(&late, &list);
	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
	answer_one();
	expect_all_but(&second, &list, REFUSED, REFUSAL_PAGE_FULL);
	expect_silence(&third);
	refuse(KERNEL_REGISTER, KERNEL_E_PAGE_FULL, 0, 1);
	answer_one();
	expect_all_but(&third, &list, REFUSED, REFUSAL_PAGE_FULL);
	expect_silence(&fourth);
	/* There is a bit left: now there is something to share. */
	answer_one();
	expect_list(&fourth, &list);
	expect_list(&late, &list);
	expect_together(&fourth, &late);
	ck_assert_uint_eq(script.asked[KERNEL_STREAM_NEW], 1);
	ck_assert_uint_eq(world->daemon->registry.leases, 5 * list.n - 3);
	ck_assert_uint_eq(world->daemon->registry.machine.common, list.n);
}

/* A kernel so slow that the daemon looks at something else after each request. */
static void slow_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	usleep((useconds_t)(TURN_TIME * 1500000));
	fake_ops.submit(kernel, calls, n, done, data);
}

/* What it asks for again is not in its socket, where it would wake the daemon. */
TEST(who_asks_again_when_there_is_no_time_left_is_served_without_being_heard_of)
{
	static struct kernel_ops slow_ops;
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	refuse(KERNEL_STREAM_NEW, -EMFILE, 0, 1);
	answer_one();
	slow_ops = fake_ops;
	slow_ops.submit = slow_submit;
	script.real = &slow_ops;
	script.holds = false;
	ev_run(world->daemon->loop, EVRUN_NOWAIT);
	ck_assert(!second.client->asks_again);
	ck_assert(third.client->asks_again);
	ck_assert(ev_is_active(&world->daemon->connections.w_busy));
	turn(world);
	ck_assert(!ev_is_active(&world->daemon->connections.w_busy));
	expect_all_refused(&first, &list, REFUSAL_TROUBLE);
	expect_list(&second, &list);
	expect_list(&third, &list);
	expect_together(&second, &third);
	script.real = &fake_ops;
}

TEST(when_the_guard_goes_while_some_wait_each_gets_a_file_of_its_own)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	set_guard(world, false);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&second, &list);
	expect_list(&third, &list);
	expect_none(&first);
	ck_assert(!is_same_file(first.stream, second.stream));
	ck_assert(!is_same_file(second.stream, third.stream));
	ck_assert_uint_eq(count_fake_streams(), 3);
}

TEST(with_require_all_who_wait_without_the_guard_are_refused)
{
	REQUIRED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	set_guard(world, false);
	hold_no_more();
	expect_all_refused(&first, &list, REFUSAL_TROUBLE);
	expect_all_refused(&second, &list, REFUSAL_TROUBLE);
	expect_all_refused(&third, &list, REFUSAL_TROUBLE);
	look_at_lingering(world);
	expect_no_charges(world);
}

/* --- the end --- */

TEST(a_daemon_that_ends_while_some_wait_and_some_hold_ends_well)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(fourth, world, 1);
	WELCOMED(fifth, world, 1);
	struct list list = usual(), other = list_of(20, 200);

	get_list(&first, &list);
	get_list(&second, &list);
	hold();
	say_list(&third, &other);
	say_list(&fourth, &other);
	say_list(&fifth, &other);
	break_connection(&fourth);
	answer_one();
	world_end(world);
	ck_assert_uint_eq(script.n_under_way, 0);
}

TEST(a_daemon_that_ends_before_they_ask_again_ends_well)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	say_list(&third, &list);
	answer_one();
	ck_assert(second.client->asks_again);
	world_end(world);
}

/* --- memory --- */

/* What became of a client's request. */
enum outcome { GRANTED, REFUSED, CUT };

static bool is_granted(const struct end *end, const struct list *list)
{
	struct answer answer[LIST_MAX];
	struct answers answers;
	unsigned granted = 0;

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
	/* Who gets nothing gets no file either. */
	ck_assert_uint_eq(end->heard.message.streams > 0, granted > 0);
	return granted == list->n;
}

/* Whichever it was, it was said once and nothing is left of it. */
static enum outcome hear_outcome(struct end *end, const struct list *list)
{
	const struct daemon *daemon = end->world->daemon;
	enum outcome outcome;

	ck_assert(hear(end));
	check_books(daemon);
	if (end->heard.message.kind == KIND_ERROR) {
		ck_assert(!hear(end));
		ck_assert_int_eq(end->heard.size, 0);
		return CUT;
	}
	ck_assert_uint_eq(end->heard.message.kind, KIND_REGISTERED);
	outcome = is_granted(end, list) ? GRANTED : REFUSED;
	expect_silence(end);
	return outcome;
}

/* Says it with that many allocations. Whether more were wanted. */
static bool say_short_of_memory(struct end *end, const struct list *list, long allocations)
{
	bool enough;

	allocations_given = allocations;
	say_list(end, list);
	enough = memory_comes_back ? allocations_given >= 0 : allocations_given > 0;
	allocations_given = -1;
	return !enough;
}

enum { ALLOCATIONS_MAX = 1000 };

/*
 * Does one thing with that many allocations, in a world where nobody is, and counts in `otherwise` when it went another way
 * than with enough. Whether more were wanted.
 */
typedef bool attempt(struct world *, long allocations, unsigned *otherwise);

/* Whichever allocation finds no memory, and whether the next ones do. */
static void try_with_ever_more_memory(attempt *try)
{
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

static bool first_asks_for(const struct list *list, struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	bool wanted = say_short_of_memory(&first, list, allocations);

	if (hear_outcome(&first, list) == GRANTED)
		*otherwise += !first.client->holder.bundle;
	get_list(&second, list);
	ck_assert(wanted || second.client->holder.bundle == first.client->holder.bundle);
	return wanted;
}

static bool first_asks(struct world *world, long allocations, unsigned *otherwise)
{
	struct list list = usual();

	return first_asks_for(&list, world, allocations, otherwise);
}

/* So much that the kernel begins before all of it is decided. */
static bool first_asks_for_much(struct world *world, long allocations, unsigned *otherwise)
{
	struct list list = list_of(0, 60);

	return first_asks_for(&list, world, allocations, otherwise);
}

TEST(a_first_one_short_of_memory_is_refused_or_answered_alone)
{
	try_with_ever_more_memory(first_asks);
	try_with_ever_more_memory(first_asks_for_much);
}

static bool first_asks_and_another_would_wait(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	bool wanted;

	hold();
	wanted = say_short_of_memory(&first, &list, allocations);
	say_list(&second, &list);
	*otherwise += script.n_under_way == 2;
	hold_no_more();
	hear_outcome(&first, &list);
	expect_list(&second, &list);
	ck_assert(wanted || second.client->holder.bundle == first.client->holder.bundle);
	return wanted;
}

TEST(for_a_first_one_short_of_memory_nobody_waits_in_vain)
{
	try_with_ever_more_memory(first_asks_and_another_would_wait);
}

TEST(waiting_takes_no_memory)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();

	hold();
	say_list(&first, &list);
	allocations_given = 0;
	say_list(&second, &list);
	allocations_given = -1;
	ck_assert_uint_eq(script.n_under_way, 1);
	hold_no_more();
	expect_list(&first, &list);
	expect_list(&second, &list);
	expect_together(&first, &second);
}

/* What the kernel has answered is written down without memory. */
static bool first_is_answered(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	bool wanted;

	hold();
	say_list(&first, &list);
	say_list(&second, &list);
	allocations_left = allocations;
	answer_batch(TAILQ_FIRST(&script.under_way));
	wanted = memory_comes_back ? allocations_left < 0 : allocations_left <= 0;
	allocations_left = -1;
	hold_no_more();
	if (hear_outcome(&first, &list) == GRANTED)
		*otherwise += !first.client->holder.bundle;
	expect_list(&second, &list);
	ck_assert(wanted || second.client->holder.bundle == first.client->holder.bundle);
	return wanted;
}

TEST(what_cannot_be_written_down_is_refused_and_who_waited_asks_by_itself)
{
	try_with_ever_more_memory(first_is_answered);
}

static bool another_joins(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), again;
	bool wanted = say_short_of_memory(&second, &list, allocations);

	if (hear_outcome(&second, &list) == GRANTED)
		*otherwise += second.client->holder.bundle != first.client->holder.bundle;
	else
		(*otherwise)++;
	again = get_list(&first, &list);
	expect_same_answers(&one, &again, list.n);
	return wanted;
}

TEST(who_cannot_join_for_lack_of_memory_is_refused_or_answered_one_by_one)
{
	try_with_ever_more_memory(another_joins);
}

static bool another_joins_on_two_files(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(old, world, 1);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
	bool wanted;

	get_list(&old, &before);
	get_list(&first, &list);
	wanted = say_short_of_memory(&second, &list, allocations);
	if (hear_outcome(&second, &list) == GRANTED)
		*otherwise += second.client->holder.bundle != first.client->holder.bundle;
	else
		(*otherwise)++;
	ck_assert_uint_eq(query(&first).leases, list.n);
	return wanted;
}

TEST(who_can_have_one_file_only_for_lack_of_memory_gets_none_for_nothing)
{
	try_with_ever_more_memory(another_joins_on_two_files);
}

static bool release_short_of_memory(struct end *end, const struct granted *granted, long allocations, unsigned *cut)
{
	const struct daemon *daemon = end->world->daemon;
	unsigned before = leases_count(&end->client->holder);
	bool enough;

	allocations_given = allocations;
	say_release(end, granted->answer[3].bit);
	enough = memory_comes_back ? allocations_given >= 0 : allocations_given > 0;
	allocations_given = -1;
	ck_assert(hear(end));
	check_books(daemon);
	if (end->heard.message.kind == KIND_ERROR) {
		++*cut;
		return true;
	}
	ck_assert_uint_eq(end->heard.message.kind, KIND_RELEASED);
	ck_assert_uint_eq(query(end).leases, before - 1);
	return !enough;
}

static bool one_gives_back(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted one = get_list(&first, &list), again;
	bool wanted;

	get_list(&second, &list);
	get(&second, "event_50 u32 x");
	wanted = release_short_of_memory(&second, &one, allocations, otherwise);
	again = get_list(&first, &list);
	expect_same_answers(&one, &again, list.n);
	ck_assert_uint_eq(query(&first).leases, list.n);
	return wanted;
}

TEST(who_cannot_give_back_a_part_for_lack_of_memory_is_cut_off_and_the_others_keep_all)
{
	try_with_ever_more_memory(one_gives_back);
}

static bool the_last_gives_back(struct world *world, long allocations, unsigned *otherwise)
{
	WELCOMED(end, world, 1);
	WELCOMED(witness, world, 1);
	struct list list = usual();
	struct granted granted = get_list(&end, &list);
	bool wanted = release_short_of_memory(&end, &granted, allocations, otherwise);

	ck_assert_uint_eq(query(&witness).events, list.n);
	return wanted;
}

TEST(a_last_one_that_cannot_give_back_for_lack_of_memory_is_cut_off_and_all_lingers)
{
	try_with_ever_more_memory(the_last_gives_back);
}

static uint32_t leases_of(const struct end *end)
{
	return end->client->holder.tenant->level->own_leases.held;
}

TEST(a_lease_beyond_the_maximum_is_refused_with_the_key)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	static const char *const refused[] = { "three u32 x", "one u32 x" };
	struct answer answer;

	world_adopt(world, "[Daemon]\nDefaultMaxLeases=2\n");
	get(&first, "one u32 x");
	get(&first, "two u32 x");
	/* An event that nobody has, and one that costs the kernel nothing. */
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		REGISTER(&second, refused[i]);
		expect_answers(&second, &answer, 1);
		ck_assert_uint_eq(answer.refusal, REFUSAL_QUOTA_EXCEEDED);
		ck_assert_msg(strstr(answer.text, "2 of 2 leases (DefaultMaxLeases=2"), "%s", answer.text);
		ck_assert_uint_eq(leases_of(&first), 2);
		check_books(world->daemon);
	}
	/* What it has it may ask for again; and what another gives back is free. */
	get(&first, "one u32 x");
	world_adopt(world, "[Daemon]\nDefaultMaxLeases=3\n");
	get(&second, "one u32 x");
	ck_assert_uint_eq(leases_of(&first), 3);
	end_hang_up(&second);
	ck_assert_uint_eq(leases_of(&first), 2);
	check_books(world->daemon);
}

TEST(an_event_that_nobody_leases_counts_as_one_lease)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(witness, world, 1);
	struct list list = usual();

	get_list(&first, &list);
	ck_assert_uint_eq(leases_of(&witness), list.n);
	end_hang_up(&first);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, 0);
	ck_assert_uint_eq(leases_of(&witness), list.n);
	first.stream = fd_close(first.stream);
	look_at_lingering(world);
	ck_assert_uint_eq(leases_of(&witness), 0);
}

TEST(a_part_of_a_bundle_beyond_the_maximum_ends_the_connection)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	struct list list = usual();
	struct granted granted;

	world_adopt(world, "[Daemon]\nDefaultMaxLeases=15\n");
	get_list(&first, &list);
	granted = get_list(&second, &list);
	expect_together(&first, &second);
	ck_assert_uint_eq(leases_of(&first), list.n);
	say_release_all(&second, &granted, 1);
	expect_cut(&second, REFUSAL_QUOTA_EXCEEDED);
	turn(world);
	check_books(world->daemon);
	ck_assert_uint_eq(leases_of(&first), list.n);
	ck_assert_uint_eq(query(&first).leases, list.n);
	/* The last one needs no room. */
	say_release_all(&first, &granted, 1);
	expect_released(&first, 1);
	ck_assert_uint_eq(query(&first).leases, list.n - 1);
	check_books(world->daemon);
}

/* The same events each time, in other words. */
static void say_at_length(struct end *end, unsigned number)
{
	enum { EVENTS = 64, LENGTH = 480 };
	static char text[EVENTS][WIRE_DESCRIPTION_MAX];
	const char *batch[EVENTS];

	for (unsigned i = 0; i < EVENTS; i++) {
		int length = snprintf(text[i], sizeof(text[i]), "event_%u%*s u32 x", i, (int)(number + 1), "");

		snprintf(text[i] + length, sizeof(text[i]) - (size_t)length, "%*s", LENGTH - length, "");
		batch[i] = text[i];
	}
	say_register(end, 0, batch, EVENTS);
}

TEST(bundles_of_one_tenant_take_no_more_memory_than_a_limit)
{
	enum { CLIENTS = 40, EVENTS = 64 };
	GUARDED(world);
	struct end ends[CLIENTS];
	struct answer answers[EVENTS];
	unsigned bundles = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		ends[i] = end_welcomed(world, 1);
		say_at_length(&ends[i], i);
		expect_answers(&ends[i], answers, EVENTS);
		ck_assert_uint_le(ends[i].client->holder.tenant->bundle_bytes, BUNDLE_BYTES_MAX);
		bundles += ends[i].client->holder.bundle != NULL;
		ck_assert_uint_eq(query(&ends[i]).leases, EVENTS);
	}
	ck_assert_uint_gt(bundles, 10);
	ck_assert_uint_lt(bundles, CLIENTS);
	check_books(world->daemon);
	for (unsigned i = 0; i < CLIENTS; i++)
		end_deinit(&ends[i]);
}
