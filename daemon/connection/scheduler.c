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
 *   answers. Then new requests wait, in their sockets, and long ones still go on, since that frees memory. Each such tenant has
 *   a timer. Its clients' fds are not watched by the loop; inflight.c finds those that have hung up.
 */

#include "daemon/connection/scheduler.h"

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
		ev_timer_stop(connections->loop, &tenant->w_delayed);
	tenant->turn = turn;
	if (turn == TURN_RUNNABLE)
		TAILQ_INSERT_TAIL(&connections->runnable, tenant, in_turns);
}

/* New clients of a delayed tenant, in their order. Thousands may have come before it was delayed: a timer does the rest. */
static void note_delayed(struct tenant *tenant)
{
	struct client *client =
		tenant->last_delayed ? TAILQ_NEXT(tenant->last_delayed, in_queue) : TAILQ_FIRST(&tenant->ready);

	for (unsigned i = 0; client && i < DELAYED_MAX; client = TAILQ_NEXT(client, in_queue), i++) {
		client->stall = STALL_RATE;
		tenant->throttled++;
		if (tenant->summary)
			tenant->summary->throttled++;
		tenant->last_delayed = client;
		client_watch(client);
	}
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
		note_delayed(tenant);
	else if (tenant->turn == TURN_NONE || tenant->turn == TURN_DELAYED)
		set_turn(client->connections, tenant, TURN_RUNNABLE);
}

void scheduler_remove(struct client *client)
{
	struct tenant *tenant = client->holder.tenant;

	if (!is_queued(client))
		return;
	if (tenant->last_delayed == client)
		tenant->last_delayed = TAILQ_PREV(client, client_queue, in_queue);
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

static void on_delayed(struct ev_loop *loop, ev_timer *w, int events);

static void delay(struct connections *connections, struct tenant *tenant, double wait)
{
	set_turn(connections, tenant, TURN_DELAYED);
	ev_timer_init(&tenant->w_delayed, on_delayed, MAX(wait, THROTTLE_LEAST), 0.);
	tenant->w_delayed.data = connections;
	ev_timer_start(connections->loop, &tenant->w_delayed);
	/* The last: its clients may have to be closed, and then nothing is delayed. */
	note_delayed(tenant);
}

static void on_delayed(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct tenant *tenant = container_of(w, struct tenant, w_delayed);
	double wait;

	rules_update(tenant);
	wait = wait_of(w->data, tenant, clock_now());
	if (wait > 0.)
		delay(w->data, tenant, wait);
	else
		set_turn(w->data, tenant, TURN_RUNNABLE);
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
