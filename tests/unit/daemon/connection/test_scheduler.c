/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/scheduler.h"

#include "daemon/connection/client.h"
#include "daemon/process/clock.h"
#include "tests/unit/fake_kernel.h"

static struct client *next(const struct world *world)
{
	return scheduler_next(&world->daemon->connections);
}

TEST(without_clients_there_is_no_turn)
{
	GUARDED(world);

	ck_assert_ptr_null(next(world));
}

TEST(tenants_take_turns_however_many_connections)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(third, world, 1);
	WELCOMED(other, world, 2);

	scheduler_add(first.client);
	scheduler_add(second.client);
	scheduler_add(third.client);
	scheduler_add(other.client);
	ck_assert_ptr_eq(next(world), first.client);
	ck_assert_ptr_eq(next(world), other.client);
	ck_assert_ptr_eq(next(world), second.client);
	ck_assert_ptr_eq(next(world), third.client);
	ck_assert_ptr_null(next(world));
}

TEST(client_that_comes_again_at_once_comes_last)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 2);

	scheduler_add(first.client);
	scheduler_add(second.client);
	scheduler_add(other.client);
	ck_assert_ptr_eq(next(world), first.client);
	scheduler_add(first.client);
	ck_assert_ptr_eq(next(world), other.client);
	ck_assert_ptr_eq(next(world), second.client);
	ck_assert_ptr_eq(next(world), first.client);
}

TEST(client_is_queued_once)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	scheduler_add(end.client);
	scheduler_add(end.client);
	ck_assert_ptr_eq(next(world), end.client);
	ck_assert_ptr_null(next(world));
}

TEST(removed_client_has_no_turn_and_takes_none_away)
{
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(other, world, 2);

	scheduler_add(first.client);
	scheduler_add(second.client);
	scheduler_add(other.client);
	scheduler_remove(first.client);
	scheduler_remove(first.client);
	scheduler_remove(other.client);
	ck_assert_int_eq(tenant_of(&other)->turn, TURN_NONE);
	ck_assert_ptr_eq(next(world), second.client);
	ck_assert_ptr_null(next(world));
}

static void go_on(struct client_task *task _unused_)
{
}

TEST(long_requests_and_new_ones_alternate)
{
	struct client_task task[2] = { { .resume = go_on }, { .resume = go_on } };
	GUARDED(world);
	WELCOMED(new, world, 1);
	WELCOMED(newer, world, 1);
	WELCOMED(begun, world, 1);
	WELCOMED(also_begun, world, 1);

	task_begin(&task[0], begun.client);
	task_begin(&task[1], also_begun.client);
	scheduler_add(new.client);
	scheduler_add(newer.client);
	scheduler_add(begun.client);
	scheduler_add(also_begun.client);
	/* The last one that was handled was a HELLO. */
	ck_assert_ptr_eq(next(world), begun.client);
	ck_assert_ptr_eq(next(world), new.client);
	ck_assert_ptr_eq(next(world), also_begun.client);
	ck_assert_ptr_eq(next(world), newer.client);
	task_end(&task[0]);
	task_end(&task[1]);
}

/* What the tenant may make in a second. */
static void set_rate(const struct end *end, uint32_t rate)
{
	bucket_init(&tenant_of(end)->level->own_requests, rate, rate, clock_now());
}

static void look_at_delayed(const struct world *world)
{
	ev_invoke(world->daemon->loop, &world->daemon->connections.w_delayed, EV_TIMER);
}

TEST(tenant_over_its_rate_delays_new_requests_alone)
{
	struct client_task task = { .resume = go_on };
	GUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(begun, world, 1);
	WELCOMED(other, world, 2);

	set_rate(&first, 1);
	scheduler_charge(tenant_of(&first));
	task_begin(&task, begun.client);
	scheduler_add(first.client);
	scheduler_add(other.client);
	ck_assert_ptr_eq(next(world), other.client);
	ck_assert_ptr_null(next(world));
	ck_assert_int_eq(first.client->stall, STALL_RATE);
	ck_assert_uint_eq(tenant_of(&first)->throttled, 1);
	scheduler_add(second.client);
	ck_assert_uint_eq(tenant_of(&first)->throttled, 2);
	scheduler_add(begun.client);
	ck_assert_ptr_eq(next(world), begun.client);
	ck_assert_ptr_null(next(world));
	look_at_delayed(world);
	ck_assert_ptr_null(next(world));
	/* Each is counted once. */
	ck_assert_uint_eq(tenant_of(&first)->throttled, 2);
	set_rate(&first, UINT32_MAX);
	look_at_delayed(world);
	ck_assert_ptr_eq(next(world), first.client);
	ck_assert_ptr_eq(next(world), second.client);
	task_end(&task);
}

TEST(client_that_hangs_up_while_delayed_is_closed)
{
	GUARDED(world);
	WELCOMED(leaver, world, 1);
	WELCOMED(other, world, 1);
	struct client *client = leaver.client;

	set_rate(&leaver, 1);
	scheduler_charge(tenant_of(&leaver));
	scheduler_add(client);
	ck_assert_ptr_null(next(world));
	leaver.socket = fd_close(leaver.socket);
	look_at_delayed(world);
	ck_assert_int_eq(client->life, LIFE_CLOSING);
	ck_assert_int_eq(tenant_of(&other)->turn, TURN_NONE);
	set_rate(&other, UINT32_MAX);
	turn(world);
}

TEST(tenant_with_a_full_backlog_waits_for_answers)
{
	GUARDED(world);
	WELCOMED(greedy, world, 1);
	WELCOMED(other, world, 2);
	struct tenant *tenant = tenant_of(&greedy);

	scheduler_submitted(tenant, BACKLOG_MAX);
	scheduler_add(greedy.client);
	scheduler_add(other.client);
	ck_assert_ptr_eq(next(world), other.client);
	ck_assert_ptr_null(next(world));
	ck_assert_int_eq(tenant->turn, TURN_BACKLOG);
	scheduler_answered(&world->daemon->connections, tenant, 1);
	ck_assert_ptr_eq(next(world), greedy.client);
	scheduler_answered(&world->daemon->connections, tenant, BACKLOG_MAX - 1);
}
