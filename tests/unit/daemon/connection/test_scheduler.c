/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/scheduler.h"

#include <sys/epoll.h>

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/process/clock.h"
#include "daemon/process/loop.h"
#include "tests/unit/epoll.h"
#include "tests/unit/fake_kernel.h"

/* Each of them has a request. */
#define ADD(...) add((struct end *const[]){ __VA_ARGS__ }, ARRAY_SIZE(((struct end *const[]){ __VA_ARGS__ })))

static void add(struct end *const ends[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		scheduler_add(ends[i]->client);
}

/* They have their turns in this order, and no other client has one. */
#define EXPECT(world, ...)                                                                                             \
	expect_turns(world, (const struct end *const[]){ __VA_ARGS__ },                                                \
		     ARRAY_SIZE(((const struct end *const[]){ __VA_ARGS__ })))

static void expect_turns(const struct world *world, const struct end *const ends[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_ptr_eq(scheduler_next(&world->daemon->connections), ends[i]->client);
	ck_assert_ptr_null(scheduler_next(&world->daemon->connections));
}

TEST(tenants_take_turns_however_many_connections)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	WELCOMED(other, world, 2);

	expect_turns(world, NULL, 0);
	ADD(&c[0], &c[1], &c[2], &other);
	EXPECT(world, &c[0], &other, &c[1], &c[2]);
}

TEST(client_that_comes_again_at_once_comes_last)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED(other, world, 2);

	ADD(&c[0], &c[1], &other);
	ck_assert_ptr_eq(scheduler_next(&world->daemon->connections), c[0].client);
	ADD(&c[0]);
	EXPECT(world, &other, &c[1], &c[0]);
}

TEST(client_is_queued_once)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	ADD(&end, &end);
	EXPECT(world, &end);
}

TEST(removed_client_has_no_turn_and_takes_none_away)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	WELCOMED(other, world, 2);

	ADD(&c[0], &c[1], &other);
	scheduler_remove(c[0].client);
	scheduler_remove(c[0].client);
	scheduler_remove(other.client);
	ck_assert_int_eq(tenant_of(&other)->turn, TURN_NONE);
	EXPECT(world, &c[1]);
}

static void go_on(struct client_task *task _unused_)
{
}

TEST(long_requests_and_new_ones_alternate)
{
	struct client_task task[2] = { { .resume = go_on }, { .resume = go_on } };
	GUARDED(world);
	CLIENTS(c, world, 4);

	task_begin(&task[0], c[2].client);
	task_begin(&task[1], c[3].client);
	ADD(&c[0], &c[1], &c[2], &c[3]);
	/* The last request was new: a HELLO. */
	EXPECT(world, &c[2], &c[0], &c[3], &c[1]);
	task_end(&task[0]);
	task_end(&task[1]);
}

/* Requests of the tenant in a second. */
static void set_rate(const struct end *end, uint32_t rate)
{
	bucket_init(&tenant_of(end)->level->own_requests, rate, rate, clock_now());
}

static void look_at_delayed(const struct world *world)
{
	struct tenant *tenant, *next;

	HASH_ITER(by_number, world->daemon->registry.tenants, tenant, next)
		if (tenant->turn == TURN_DELAYED)
			ev_invoke(world->daemon->loop, &tenant->w_delayed, EV_TIMER);
}

TEST(tenant_over_its_rate_delays_new_requests_alone)
{
	struct client_task task = { .resume = go_on };
	GUARDED(world);
	CLIENTS(c, world, 3);
	WELCOMED(other, world, 2);
	const struct tenant *tenant = tenant_of(&c[0]);

	set_rate(&c[0], 1);
	level_take(tenant_of(&c[0])->level, clock_now());
	task_begin(&task, c[2].client);
	ADD(&c[0], &other);
	EXPECT(world, &other);
	ck_assert_int_eq(c[0].client->stall, STALL_RATE);
	ck_assert_uint_eq(tenant->throttled, 1);
	ADD(&c[1]);
	ck_assert_uint_eq(tenant->throttled, 2);
	ADD(&c[2]);
	EXPECT(world, &c[2]);
	look_at_delayed(world);
	expect_turns(world, NULL, 0);
	/* Each is counted once. */
	ck_assert_uint_eq(tenant->throttled, 2);
	set_rate(&c[0], UINT32_MAX);
	look_at_delayed(world);
	EXPECT(world, &c[0], &c[1]);
	task_end(&task);
}

TEST(client_that_hangs_up_while_delayed_is_closed)
{
	GUARDED(world);
	CLIENTS(c, world, 2);

	set_rate(&c[0], 1);
	level_take(tenant_of(&c[0])->level, clock_now());
	inflight_add(c[0].client, 1);
	ADD(&c[0]);
	expect_turns(world, NULL, 0);
	/* The daemon notices only now that the client has read its page. */
	ck_assert(!inflight_remains(c[0].client));
	c[0].socket = fd_close(c[0].socket);
	take_events();
	ck_assert_int_eq(c[0].client->life, LIFE_CLOSING);
	ck_assert_int_eq(tenant_of(&c[1])->turn, TURN_NONE);
	set_rate(&c[1], UINT32_MAX);
	turn(world);
}

/* As one that had asked when it was accepted: so far it was not watched. */
TEST(delayed_client_that_cant_be_watched_is_closed)
{
	GUARDED(world);
	CLIENTS(c, world, 2);
	struct tenant *tenant = tenant_of(&c[0]);

	set_rate(&c[0], 1);
	level_take(tenant->level, clock_now());
	ck_assert_int_eq(epoll_ctl(loop_epoll, EPOLL_CTL_DEL, c[0].client->fd, NULL), 0);
	c[0].client->events = 0;
	epoll_is_full = true;
	ADD(&c[0]);
	expect_turns(world, NULL, 0);
	epoll_is_full = false;
	ck_assert_int_eq(c[0].client->life, LIFE_CLOSING);
	ck_assert_int_eq(tenant->turn, TURN_NONE);
	ck_assert(!ev_is_active(&tenant->w_delayed));
	set_rate(&c[1], UINT32_MAX);
	turn(world);
}

/* More than are looked at in one turn; some leave the queue meanwhile. */
TEST(hangups_of_many_delayed_clients_are_noticed)
{
	enum { MANY = DELAYED_MAX + 6 };
	struct end ends[MANY];
	struct tenant *tenant;
	GUARDED(world);

	for (unsigned i = 0; i < MANY; i++)
		ends[i] = end_welcomed(world, 1);
	tenant = tenant_of(&ends[0]);
	set_rate(&ends[0], 1);
	level_take(tenant->level, clock_now());
	for (unsigned i = 0; i < MANY; i++)
		scheduler_add(ends[i].client);
	expect_turns(world, NULL, 0);
	ck_assert_uint_eq(tenant->throttled, DELAYED_MAX);
	scheduler_remove(ends[DELAYED_MAX - 1].client);
	scheduler_remove(ends[0].client);
	look_at_delayed(world);
	ck_assert_uint_eq(tenant->throttled, MANY);
	for (unsigned i = 1; i < MANY; i++)
		ends[i].socket = fd_close(ends[i].socket);
	take_events();
	for (unsigned i = 1; i < MANY; i++)
		ck_assert_int_eq(ends[i].client->life, i == DELAYED_MAX - 1 ? LIFE_OPEN : LIFE_CLOSING);
	/* Nothing delayed it, so it is to be read. */
	scheduler_remove(ends[DELAYED_MAX - 1].client);
	ck_assert_int_eq(tenant->turn, TURN_NONE);
	ck_assert_ptr_null(tenant->last_delayed);
	set_rate(&ends[0], UINT32_MAX);
	for (unsigned i = 0; i < MANY; i++)
		end_deinit(&ends[i]);
}

TEST(tenant_with_a_full_backlog_waits_for_answers)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(other, world, 2);
	struct tenant *tenant = tenant_of(&greedy);

	scheduler_submitted(tenant, BACKLOG_MAX);
	ADD(&greedy, &other);
	EXPECT(world, &other);
	ck_assert_int_eq(tenant->turn, TURN_BACKLOG);
	scheduler_answered(&world->daemon->connections, tenant, 1);
	EXPECT(world, &greedy);
	scheduler_answered(&world->daemon->connections, tenant, BACKLOG_MAX - 1);
}
