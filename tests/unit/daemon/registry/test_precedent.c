/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Identical requests: the second is a precedent for those to come, as long as nothing has changed. */

#include "daemon/registry/precedent.h"

#include "daemon/limits.h"
#include "daemon/registry/tenant.h"
#include "tests/unit/lists.h"

enum { N = PRECEDENT_EVENTS_MIN };

/* Whether the next identical request would be answered by it. */
static bool has_precedent(const struct end *end)
{
	const struct tenant *tenant = tenant_of(end);

	return tenant->precedent && tenant->precedent->ended == tenant->ended;
}

TEST(second_identical_request_is_the_precedent)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), other;

	ck_assert(!has_precedent(&c[0]));
	get_list(&c[1], &list);
	ck_assert(has_precedent(&c[0]));
	other = get_list(&c[2], &list);
	expect_same_answers(&one, &other, N);
	ck_assert(is_same_file(c[0].stream, c[2].stream));
	expect_account(&c[2], N, N, 0);
	expect_charged(world, N, 3 * N);
}

TEST(short_refused_or_persistent_one_is_no_precedent)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	WELCOMED(other, world, 2);
	struct list few = list_of(0, N - 1), list = list_of(0, N), lasting = { .flags = REGISTER_PERSIST, .n = N };

	script.kernel->facts.flags = REGISTER_PERSIST;
	get(&other, "event_7 u64 other");
	for (unsigned i = 0; i < 2; i++) {
		get_list(&c[i], &few);
		say_list(&c[i], &list);
		expect_list_but(&c[i], &list, 7, REFUSAL_NAME_TAKEN);
		ck_assert(!has_precedent(&c[i]));
	}
	for (unsigned i = 0; i < N; i++)
		lasting.event[i] = 20 + i;
	for (unsigned i = 2; i < 4; i++) {
		get_list(&c[i], &lasting);
		ck_assert(!has_precedent(&c[i]));
	}
	/* Persistent events stay charged. */
	world_end(world);
}

TEST(release_of_an_event_ends_the_precedent)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list);
	struct answer again;

	get_list(&c[1], &list);
	release(&c[0], one.answer[0].bit);
	ck_assert(has_precedent(&c[0]));
	release(&c[1], one.answer[0].bit);
	ck_assert(!has_precedent(&c[0]));
	again = get_list(&c[2], &list).answer[1];
	expect_same_answer(&one.answer[1], &again);
	expect_charged(world, N, 3 * N - 2);
}

TEST(events_that_ended_are_no_precedent)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	end_deinit(&c[0]);
	end_deinit(&c[1]);
	look_at_lingering(world);
	expect_no_charges(world);
	get_list(&c[2], &list);
	expect_asked(KERNEL_STREAM_NEW, 2);
	expect_asked(KERNEL_REGISTER, 2 * N);
}

TEST(precedent_is_for_the_same_user_alone)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	get_list(&other, &list);
	ck_assert(!is_same_file(c[0].stream, other.stream));
}

/* An event that it holds already, and a maximum that has room for a part. */
TEST(client_that_may_not_have_all_is_decided_alone)
{
	static struct answer answer[N];
	GUARDED(world);
	CLIENTS(c, world, 4);
	struct list list = list_of(0, N);
	unsigned refused = 0;

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	get(&c[2], "event_3 u32 x");
	get_list(&c[2], &list);
	expect_account(&c[2], N, N, 0);
	world_adopt(world, "[Daemon]\nDefaultMaxLeases=27\n");
	get_list(&c[1], &list);
	say_list(&c[3], &list);
	expect_answers(&c[3], answer, N);
	for (unsigned i = 0; i < N; i++)
		refused += answer[i].refusal == REFUSAL_QUOTA_EXCEEDED;
	ck_assert_uint_eq(refused, 4 * N - 27);
	check_books(world->daemon);
}
