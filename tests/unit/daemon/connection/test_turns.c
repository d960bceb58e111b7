/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Long requests are decided in parts, and the kernel's backlog of a tenant is bounded: others have their turns meanwhile. */

#include <sys/epoll.h>

#include "daemon/connection/scheduler.h"
#include "daemon/limits.h"
#include "daemon/process/loop.h"
#include "daemon/registry/tenant.h"
#include "tests/unit/lists.h"

/* As many events as a request may have; another number has other events. */
static struct list long_list(unsigned number)
{
	return list_of(number * WIRE_BATCH_MAX, WIRE_BATCH_MAX);
}

/* The test itself takes requests, until go_on(). */
static void stand_still(struct world *world)
{
	turn(world);
	world->stands_still = true;
}

static void go_on(struct world *world)
{
	world->stands_still = false;
}

static void take_turns_until_answered(const struct end *end)
{
	while (!has_an_answer(end)) {
		struct client *next = scheduler_next(&end->world->daemon->connections);

		ck_assert_ptr_nonnull(next);
		client_take_request(next);
	}
}

TEST(long_request_leaves_turns_to_others)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(sibling, world, 1);
	WELCOMED(neighbour, world, 2);
	struct end *ends[] = { &greedy, &sibling, &neighbour };
	struct list list = long_list(0);

	stand_still(world);
	say_list(&greedy, &list);
	REGISTER(&sibling, "small u32 a");
	REGISTER(&neighbour, "small u32 a");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		scheduler_add(ends[i]->client);
	take_turns_until_answered(&neighbour);
	ck_assert(client_goes_on(greedy.client));
	take_turns_until_answered(&sibling);
	ck_assert(client_goes_on(greedy.client));
	ck_assert(!has_an_answer(&greedy));
	expect_granted(&neighbour);
	expect_granted(&sibling);
	go_on(world);
	expect_list(&greedy, &list);
	ck_assert(!client_goes_on(greedy.client));
}

/* Otherwise the kernel would report each of thousands whenever one of them is served. */
TEST(queued_client_is_reported_once)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct epoll_event event;

	say_at_once(&end, KIND_QUERY);
	take_events();
	ck_assert_int_eq(end.client->stall, STALL_TURN);
	find_events();
	ck_assert(!loop_next_event(&event));
	turn(world);
	expect(&end, KIND_ACCOUNT);
	ck_assert_int_eq(end.client->stall, STALL_NONE);
	say_at_once(&end, KIND_QUERY);
	turn(world);
	expect(&end, KIND_ACCOUNT);
}

/* The first part of a long request is decided. */
static void begin_to_decide(struct end *end)
{
	struct list list = long_list(0);

	stand_still(end->world);
	say_list(end, &list);
	client_take_request(end->client);
	ck_assert(client_goes_on(end->client));
	go_on(end->world);
}

TEST(client_that_leaves_a_long_request_leaves_nothing)
{
	GUARDED(world);
	WELCOMED(leaver, world, 1);
	WELCOMED(broken, world, 2);

	begin_to_decide(&leaver);
	end_hang_up(&leaver);
	begin_to_decide(&broken);
	break_connection(&broken);
	expect_all_gone(world);
}

TEST(daemon_with_a_long_request_ends_well)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	begin_to_decide(&end);
	end.may_be_cut = true;
	world_end(world);
}

/* Its first events are granted by a policy that is replaced before the last are decided. */
TEST(request_of_two_policies_is_no_precedent)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct list list = long_list(0);

	get_list(&c[0], &list);
	begin_to_decide(&c[1]);
	world_adopt(world, "[Daemon]\nDefaultMaxRequestsPerSecond=1000\n");
	expect_list(&c[1], &list);
	ck_assert_ptr_null(tenant_of(&c[0])->precedent);
	get_list(&c[1], &list);
	ck_assert_ptr_nonnull(tenant_of(&c[0])->precedent);
}

static size_t count_under_way(void)
{
	const struct batch *batch;
	size_t n = 0;

	TAILQ_FOREACH(batch, &script.under_way, entry)
		n += batch->n;
	return n;
}

TEST(backlog_of_a_tenant_is_bounded_for_all_connections)
{
	enum { MOST = BACKLOG_MAX + BACKLOG_MAX / 2 };
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED(neighbour, world, 2);
	struct list lists[] = { long_list(0), long_list(1) };

	hold();
	say_list(&c[0], &lists[0]);
	say_list(&c[1], &lists[1]);
	ck_assert(count_under_way() >= BACKLOG_MAX && count_under_way() < MOST);
	/* A full backlog does not delay another tenant. */
	REGISTER(&neighbour, "small u32 a");
	ck_assert_uint_lt(count_under_way(), MOST + 2);
	while (neighbour.client->task)
		answer_one();
	expect_granted(&neighbour);
	ck_assert_ptr_nonnull(c[0].client->task);
	while (script.n_under_way > 0) {
		ck_assert_uint_lt(count_under_way(), MOST);
		answer_one();
		turn(world);
	}
	expect(&c[0], KIND_REGISTERED);
	expect(&c[1], KIND_REGISTERED);
	check_books(world->daemon);
	ck_assert_uint_eq(tenant_of(&c[0])->backlog, 0);
}

TEST(client_that_leaves_a_full_backlog_leaves_nothing)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	struct list list = long_list(0);

	hold();
	say_list(&c[0], &list);
	for (unsigned i = 1; i < 4; i++)
		REGISTER(&c[i], "small u32 a");
	ck_assert_int_eq(tenant_of(&c[3])->turn, TURN_BACKLOG);
	end_hang_up(&c[1]);
	break_connection(&c[2]);
	break_connection(&c[0]);
	answer_all();
	turn(world);
	answer_all();
	expect_granted(&c[3]);
	ck_assert_uint_eq(tenant_of(&c[3])->backlog, 0);
}

/* No answer of the kernel follows that would wake the last one. */
TEST(requests_behind_a_full_backlog_need_no_call)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	struct list list = list_of(0, BACKLOG_MAX);

	hold();
	say_list(&c[0], &list);
	for (unsigned i = 1; i < 4; i++)
		REGISTER(&c[i], "nonsense long a");
	ck_assert_int_eq(tenant_of(&c[3])->turn, TURN_BACKLOG);
	answer_all();
	expect_list(&c[0], &list);
	for (unsigned i = 1; i < 4; i++)
		expect_refused(&c[i], REFUSAL_BAD_DESCRIPTION);
	hold_no_more();
}
