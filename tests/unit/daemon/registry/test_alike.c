/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs of one tenant with the same events: identical requests, other requests for the same events, and what each holds then. */

#include "daemon/limits.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"
#include "tests/unit/lists.h"

enum { N = 8 };

static struct list backwards(const struct list *list)
{
	struct list other = *list;

	for (unsigned i = 0; i < list->n; i++)
		other.event[i] = list->event[list->n - 1 - i];
	return other;
}

static uint32_t leases_of(const struct end *end)
{
	return tenant_of(end)->level->own[RESOURCE_LEASES].held;
}

/* What the second and third client do unlike the first. */
struct variant {
	unsigned fewer;
	bool backwards;
	bool twice; /* one event */
	bool holds; /* an event already */
	uint16_t flags;
	bool other_user;
	bool other_tenant;
	bool has_own_file;
	unsigned events; /* of the machine, then */
};

static void expect_variant(const struct variant *variant)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	const pid_t pid = variant->other_tenant ? 2 : 1;
	WELCOMED_AS(second, world, pid, getuid() + variant->other_user);
	WELCOMED_AS(third, world, pid, getuid() + variant->other_user);
	struct list list = list_of(0, N), other = variant->backwards ? backwards(&list) : list;
	struct granted one = get_list(&first, &list), two;

	other.n -= variant->fewer;
	other.flags = variant->flags;
	if (variant->twice)
		other.event[other.n++] = 0;
	if (variant->holds) {
		get(&second, "besides u32 x");
		get(&third, "besides u32 x");
	}
	two = get_list(&second, &other);
	for (unsigned i = 0; i < other.n && !variant->flags; i++)
		ck_assert_uint_eq(two.answer[i].bit, one.answer[other.event[i]].bit);
	get_list(&third, &other);
	ck_assert_int_eq(is_same_file(first.stream, second.stream), !variant->has_own_file);
	ck_assert(is_same_file(second.stream, third.stream));
	ck_assert_uint_eq(world->daemon->registry.machine.common, variant->events);
	ck_assert_uint_eq(query(&second).events, variant->events);
	ck_assert_uint_eq(query(&second).leases, MIN(other.n, (unsigned)N) + variant->holds);
	/* Persistent events stay charged. */
	if (variant->flags & REGISTER_PERSIST)
		world_end(world);
}

TEST(different_request_gets_the_same_events)
{
	static const struct variant variants[] = {
		{ .backwards = true, .events = N },
		{ .other_user = true, .has_own_file = true, .events = N },
		{ .other_tenant = true, .has_own_file = true, .events = N },
		{ .flags = REGISTER_MULTI_FORMAT, .events = 2 * N },
		{ .flags = REGISTER_PERSIST, .events = N },
		{ .fewer = 1, .events = N },
		{ .twice = true, .events = N },
		{ .holds = true, .events = N + 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		expect_variant(&variants[i]);
}

/* A part of the events was there, on a file that takes no more; the rest is on a new one. */
TEST(events_on_two_files_are_sent_with_both)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
	struct granted one, other;
	unsigned calls;

	get_list(&c[0], &before);
	one = get_list(&c[1], &list);
	ck_assert_uint_ne(one.answer[0].stream, one.answer[9].stream);
	calls = count_calls();
	other = get_list(&c[2], &list);
	ck_assert_uint_eq(count_calls(), calls);
	expect_same_answers(&one, &other, list.n);
	ck_assert_uint_eq(c[2].heard.fds.count, 2);
	ck_assert_uint_ne(c[2].heard.message.stream[0], c[2].heard.message.stream[1]);
	end_hang_up(&c[1]);
	release_list(&c[2], &other, list.n);
	ck_assert_ptr_null(LIST_FIRST(&c[2].client->holder.shares));
	ck_assert_uint_eq(query(&c[0]).leases, before.n);
}

/* --- listings --- */

static void expect_holders(struct end *admin, unsigned n)
{
	struct cursor rows = ask_for_rows(admin, KIND_EVENTS, N), row = next_row(&rows);

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

TEST(holders_beyond_a_limit_are_counted_alone)
{
	enum { MANY = HOLDERS_MAX + 1 };
	static struct end end[MANY];
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(alone, world, 1);
	struct list list = list_of(0, N);

	get(&alone, "event_0 u32 x");
	for (unsigned i = 0; i < MANY; i++) {
		end[i] = end_welcomed(world, 1);
		get_list(&end[i], &list);
		if (i >= HOLDERS_MAX - 3)
			expect_holders(&admin, i + 2);
	}
	expect_leases(&admin, MANY * N + 1);
	for (unsigned i = 0; i < MANY; i++) {
		end_deinit(&end[i]);
		if (i < 3)
			expect_holders(&admin, MANY - i);
	}
	expect_leases(&admin, 1);
	check_books(world->daemon);
	end_hang_up(&alone);
	expect_leases(&admin, 0);
	expect_holders(&admin, 0);
}

/* --- further requests --- */

TEST(client_that_asks_again_gets_the_same_answer)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), again;
	unsigned calls = count_calls();

	hold();
	get_list(&c[1], &list);
	for (unsigned i = 0; i < 2; i++) {
		again = get_list(&c[i], &list);
		expect_same_answers(&one, &again, N);
		ck_assert_uint_eq(c[i].heard.message.streams, 0);
		expect_account(&c[i], N, N, 0);
	}
	ck_assert_uint_eq(count_calls() + script.n_under_way, calls);
	expect_charged(world, N, 2 * N);
}

TEST(client_that_asks_for_more_holds_all)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	enum { BOTH = N / 2, ALL = 2 * N - BOTH };
	struct list list = list_of(0, N), more = list_of(BOTH, N);
	struct granted one = get_list(&c[0], &list), other;
	unsigned calls;

	get_list(&c[1], &list);
	calls = script.asked[KERNEL_REGISTER];
	other = get_list(&c[1], &more);
	ck_assert_uint_eq(c[1].heard.message.streams, 0);
	expect_asked(KERNEL_REGISTER, calls + N - BOTH);
	expect_same_answer(&one.answer[BOTH], &other.answer[0]);
	expect_account(&c[1], ALL, ALL, 0);
	expect_account(&c[0], ALL, N, 0);
	get_list(&c[2], &more);
	expect_asked(KERNEL_REGISTER, calls + N - BOTH);
	release(&c[1], other.answer[N - 1].bit);
	ck_assert_uint_eq(query(&c[1]).leases, ALL - 1);
	end_hang_up(&c[1]);
	check_books(world->daemon);
	ck_assert_uint_eq(query(&c[0]).leases, N);
	expect_account(&c[2], ALL, N, 0);
}

/* --- releases --- */

TEST(event_that_a_client_releases_stays_the_others)
{
	GUARDED(world);
	ADMIN(admin, world);
	CLIENTS(c, world, 4);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list);
	struct answer again;
	unsigned calls;

	get_list(&c[1], &list);
	get_list(&c[2], &list);
	calls = count_calls();
	release(&c[1], one.answer[0].bit);
	check_books(world->daemon);
	ck_assert_uint_eq(count_calls(), calls);
	expect_account(&c[1], N, N - 1, 0);
	expect_account(&c[0], N, N, 0);
	expect_charged(world, N, 3 * N - 1);
	expect_holders(&admin, 2);
	say_release(&c[1], one.answer[0].bit);
	expect_released(&c[1], 0);
	again = get(&c[1], "event_0 u32 x");
	expect_same_answer(&one.answer[0], &again);
	ck_assert_uint_eq(count_calls(), calls);
	get_list(&c[3], &list);
	expect_charged(world, N, 4 * N);
}

/* Another one may ask again. */
TEST(last_client_that_releases_all_asks_the_kernel_once)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), again;
	const struct batch *batch;

	get_list(&c[1], &list);
	release_list(&c[0], &one, N);
	ck_assert_ptr_null(LIST_FIRST(&c[0].client->holder.shares));
	expect_account(&c[1], N, N, 0);
	c[0].stream = fd_close(c[0].stream);
	again = get_list(&c[0], &list);
	expect_same_answers(&one, &again, N);
	ck_assert(is_same_file(c[0].stream, c[1].stream));
	release_list(&c[0], &one, N);
	expect_asked(KERNEL_RELEASE, 0);
	hold();
	say_release_list(&c[1], &one, N);
	batch = TAILQ_FIRST(&script.under_way);
	ck_assert_uint_eq(batch->n, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert(batch->calls[i].op == KERNEL_RELEASE && batch->calls[i].index == one.answer[i].index);
	hold_no_more();
	expect(&c[1], KIND_RELEASED);
	check_books(world->daemon);
	expect_asked(KERNEL_RELEASE, N);
	ck_assert_uint_eq(query(&c[1]).leases, 0);
	ck_assert_uint_eq(world->daemon->registry.leases, 0);
}

/* --- clients that leave --- */

TEST(left_events_are_charged_until_no_copy_is_open)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	c[1].stream = fd_close(c[1].stream);
	end_hang_up(&c[1]);
	look_at_lingering(world);
	expect_asked(KERNEL_STILL_OPEN, 0);
	ck_assert_uint_eq(query(&c[2]).lingering, 0);
	end_hang_up(&c[0]);
	check_books(world->daemon);
	expect_charged(world, N, 0);
	expect_account(&c[2], N, 0, N);
	ck_assert_uint_eq(leases_of(&c[2]), N);
	ck_assert(look_at_lingering(world));
	c[0].stream = fd_close(c[0].stream);
	ck_assert(!look_at_lingering(world));
	expect_no_charges(world);
	ck_assert_uint_eq(leases_of(&c[2]), 0);
	ck_assert_uint_eq(count_fake_streams(), 0);
	get_list(&c[2], &list);
	expect_asked(KERNEL_STREAM_NEW, 2);
}

/* --- maxima --- */

TEST(lease_beyond_the_maximum_is_refused_with_the_key)
{
	static const char *const refused[] = { "three u32 x", "one u32 x" };
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct answer answer;

	world_adopt(world, "[Daemon]\nDefaultMaxLeases=2\n");
	get(&c[0], "one u32 x");
	get(&c[0], "two u32 x");
	/* A new event, and one that costs the kernel nothing. */
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		REGISTER(&c[1], refused[i]);
		expect_answers(&c[1], &answer, 1);
		ck_assert_uint_eq(answer.refusal, REFUSAL_QUOTA_EXCEEDED);
		ck_assert_msg(strstr(answer.text, "2 of 2 leases (DefaultMaxLeases=2"), "%s", answer.text);
		ck_assert_uint_eq(leases_of(&c[0]), 2);
		check_books(world->daemon);
	}
	get(&c[0], "one u32 x");
	world_adopt(world, "[Daemon]\nDefaultMaxLeases=3\n");
	get(&c[1], "one u32 x");
	ck_assert_uint_eq(leases_of(&c[0]), 3);
	end_hang_up(&c[1]);
	ck_assert_uint_eq(leases_of(&c[0]), 2);
	check_books(world->daemon);
}
