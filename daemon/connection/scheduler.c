/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A request may be for five hundred events, and a tenant may have many connections. So requests are
 * not handled as they arrive, but queue: tenants take turns, whatever the number of their connections, and in each turn one
 * request is handled, or a part of a long one. Within a tenant, clients are served in the order in which they came. Where some of
 * them have to go on with long requests, these and new requests alternate.
 *
 * A tenant whose turn it is may have to wait:
 *
 * - for the kernel, which is slow, and answers in the order in which it is asked: the calls of one tenant that it has not
 *   answered are bounded, so that a neighbour's event comes soon, however many are wanted here;
 * - for tokens of its request rate; or until its requests under way take less memory, or its clients have read more of their
 *   answers. Then new requests wait, in their sockets, and long ones still go on, since that frees memory. One timer looks
 *   after all tenants that wait so. It also finds clients that have left meanwhile.
 */

#include "daemon/connection/scheduler.h"

#include <poll.h>

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/process/clock.h"
#include "daemon/registry/rules.h"

static bool is_queued(const struct client *client)
{
	return client->stall == STALL_TURN || client->stall == STALL_RATE;
}

static struct client_queue *queue_of(const struct client *client)
{
	struct tenant *tenant = client->holder.tenant;

	return client_goes_on(client) ? &tenant->begun : &tenant->ready;
}

static void set_turn(struct connections *connections, struct tenant *tenant, enum tenant_turn turn)
{
	if (tenant->turn == TURN_RUNNABLE)
		TAILQ_REMOVE(&connections->runnable, tenant, in_turns);
	else if (tenant->turn == TURN_DELAYED)
		TAILQ_REMOVE(&connections->delayed, tenant, in_turns);
	tenant->turn = turn;
	if (turn == TURN_RUNNABLE)
		TAILQ_INSERT_TAIL(&connections->runnable, tenant, in_turns);
	else if (turn == TURN_DELAYED)
		TAILQ_INSERT_TAIL(&connections->delayed, tenant, in_turns);
}

static void count_delayed(struct client *client)
{
	client->stall = STALL_RATE;
	client->holder.tenant->throttled++;
}

void scheduler_add(struct client *client)
{
	struct tenant *tenant = client->holder.tenant;
	bool goes_on = client_goes_on(client);

	if (is_queued(client))
		return;
	TAILQ_INSERT_TAIL(queue_of(client), client, in_queue);
	client->stall = STALL_TURN;
	if (tenant->turn == TURN_DELAYED && !goes_on)
		count_delayed(client);
	else if (tenant->turn == TURN_NONE || tenant->turn == TURN_DELAYED)
		set_turn(client->connections, tenant, TURN_RUNNABLE);
}

void scheduler_remove(struct client *client)
{
	struct tenant *tenant = client->holder.tenant;

	if (!is_queued(client))
		return;
	TAILQ_REMOVE(queue_of(client), client, in_queue);
	client->stall = STALL_NONE;
	if (TAILQ_EMPTY(&tenant->ready) && TAILQ_EMPTY(&tenant->begun))
		set_turn(client->connections, tenant, TURN_NONE);
}

/* Seconds until the tenant may make another request; 0: now. */
static double wait_of(struct connections *connections, const struct tenant *tenant, double now)
{
	double wait = level_wait(tenant->level, now);

	if (tenant->waiting < WAITING_BYTES_MAX && inflight_has_room(connections, tenant))
		return wait;
	return MAX(wait, WAITING_INTERVAL);
}

static void watch_delayed(struct connections *connections, double wait)
{
	if (ev_is_active(&connections->w_delayed) &&
	    ev_timer_remaining(connections->loop, &connections->w_delayed) <= wait)
		return;
	ev_timer_stop(connections->loop, &connections->w_delayed);
	ev_timer_set(&connections->w_delayed, MAX(wait, THROTTLE_LEAST), 0.);
	ev_timer_start(connections->loop, &connections->w_delayed);
}

/* Clients that have not been counted yet are at the end of the queue. */
static void delay(struct connections *connections, struct tenant *tenant, double wait)
{
	struct client *client;

	set_turn(connections, tenant, TURN_DELAYED);
	watch_delayed(connections, wait);
	TAILQ_FOREACH_REVERSE(client, &tenant->ready, client_queue, in_queue)
	{
		if (client->stall == STALL_RATE)
			break;
		count_delayed(client);
	}
}

/* The tenant's next client; NULL: it has to wait. */
static struct client *next_of(struct connections *connections, struct tenant *tenant)
{
	struct client *ready = TAILQ_FIRST(&tenant->ready), *begun = TAILQ_FIRST(&tenant->begun);
	double wait = 0.;

	if (begun && (!ready || tenant->has_begun)) {
		tenant->has_begun = false;
		return begun;
	}
	wait = wait_of(connections, tenant, clock_now());
	if (wait <= 0.) {
		tenant->has_begun = true;
		return ready;
	}
	if (!begun)
		delay(connections, tenant, wait);
	return begun;
}

static bool is_backlog_full(const struct tenant *tenant)
{
	return tenant->backlog >= BACKLOG_MAX;
}

struct client *scheduler_next(struct connections *connections)
{
	struct tenant *tenant;

	while ((tenant = TAILQ_FIRST(&connections->runnable))) {
		struct client *client = NULL;

		rules_update(tenant);
		if (is_backlog_full(tenant))
			set_turn(connections, tenant, TURN_BACKLOG);
		else
			client = next_of(connections, tenant);
		if (!client)
			continue;
		scheduler_remove(client);
		if (tenant->turn == TURN_RUNNABLE)
			set_turn(connections, tenant, TURN_RUNNABLE);
		return client;
	}
	return NULL;
}

void scheduler_charge(struct tenant *tenant)
{
	level_take(tenant->level, clock_now());
}

void scheduler_submitted(struct tenant *tenant, size_t calls)
{
	tenant->backlog += calls;
	tenant->registry->others.registering += (uint32_t)calls;
}

void scheduler_answered(struct connections *connections, struct tenant *tenant, size_t calls)
{
	tenant->backlog -= calls;
	tenant->registry->others.registering -= (uint32_t)calls;
	if (tenant->turn == TURN_BACKLOG && !is_backlog_full(tenant))
		set_turn(connections, tenant, TURN_RUNNABLE);
}

/* The requests of clients that have hung up need no answer. */
static void close_hung_up(struct tenant *tenant)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&tenant->ready); client; client = next) {
		struct pollfd connection = { .fd = client->fd };

		next = TAILQ_NEXT(client, in_queue);
		if (poll(&connection, 1, 0) > 0 && connection.revents & POLLHUP)
			client_close(client);
	}
}

static void on_delayed(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct connections *connections = container_of(w, struct connections, w_delayed);
	struct tenant *tenant, *next;
	double now = clock_now();
	bool looks_for_hung_up = now - connections->looked_for_hung_up >= LEFT_INTERVAL;

	if (looks_for_hung_up)
		connections->looked_for_hung_up = now;
	for (tenant = TAILQ_FIRST(&connections->delayed); tenant; tenant = next) {
		double wait;

		next = TAILQ_NEXT(tenant, in_turns);
		if (looks_for_hung_up)
			close_hung_up(tenant);
		if (tenant->turn != TURN_DELAYED)
			continue;
		rules_update(tenant);
		wait = wait_of(connections, tenant, now);
		if (wait > 0.)
			watch_delayed(connections, wait);
		else
			set_turn(connections, tenant, TURN_RUNNABLE);
	}
}

void scheduler_init(struct connections *connections)
{
	TAILQ_INIT(&connections->runnable);
	TAILQ_INIT(&connections->delayed);
	ev_timer_init(&connections->w_delayed, on_delayed, 0., 0.);
}

void scheduler_deinit(struct connections *connections)
{
	ev_timer_stop(connections->loop, &connections->w_delayed);
}
