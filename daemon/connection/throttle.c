/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Nobody is refused for asking too often: it waits, as it would for a daemon that is busy, in its own socket. The others'
 * turns go on meanwhile. One timer looks after all who stand aside, and runs only while there are such. They go on in the
 * order in which they came, as many as there are tokens; who has ended meanwhile is noticed then, or a little later than it
 * happened, since to ask costs a system call each.
 *
 * Likewise one whose siblings have left too much unread, or too many fds in flight: until they have read that, or their
 * patience has ended.
 */

#include "daemon/connection/throttle.h"

#include <poll.h>

#include "daemon/connection/client.h"
#include "daemon/connection/connections.h"
#include "daemon/connection/inflight.h"
#include "daemon/connection/turns.h"
#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/registry/tenant.h"

static void watch(struct connections *connections, double wait)
{
	if (ev_is_active(&connections->w_throttle) &&
	    ev_timer_remaining(connections->loop, &connections->w_throttle) <= wait)
		return;
	ev_timer_stop(connections->loop, &connections->w_throttle);
	ev_timer_set(&connections->w_throttle, MAX(wait, THROTTLE_LEAST), 0.);
	ev_timer_start(connections->loop, &connections->w_throttle);
}

static void stand_aside(struct client *client, double wait)
{
	client->throttled = true;
	client->holder.tenant->throttled++;
	TAILQ_INSERT_TAIL(&client->connections->throttled, client, aside);
	client_watch(client);
	watch(client->connections, wait);
}

/* Seconds; 0: it may ask. */
static double wait_of(const struct client *client, double now)
{
	const struct tenant *tenant = client->holder.tenant;
	double wait = level_wait(tenant->level, now);

	return tenant->waiting < WAITING_BYTES_MAX && inflight_has_room(client->connections, tenant)
		       ? wait
		       : MAX(wait, WAITING_INTERVAL);
}

bool throttle_passes(struct client *client)
{
	double wait = wait_of(client, clock_now());

	if (wait > 0.)
		stand_aside(client, wait);
	return wait <= 0.;
}

void throttle_count(struct client *client)
{
	level_take(client->holder.tenant->level, clock_now());
}

void throttle_remove(struct client *client)
{
	if (client->throttled)
		TAILQ_REMOVE(&client->connections->throttled, client, aside);
	client->throttled = false;
}

/* Nobody would read the answers to what it still asks. */
static bool has_left(const struct client *client)
{
	struct pollfd connection = { .fd = client->fd };

	return poll(&connection, 1, 0) > 0 && connection.revents & POLLHUP;
}

static void look_after(struct client *client, double now, bool ask_all)
{
	struct tenant *tenant = client->holder.tenant;
	double wait = wait_of(client, now);
	bool has_to_wait = wait > 0. || tenant->let_go >= level_tokens(tenant->level, now);

	if ((ask_all || !has_to_wait) && has_left(client)) {
		client_close(client);
	} else if (has_to_wait) {
		watch(client->connections, wait);
	} else {
		tenant->let_go++;
		throttle_remove(client);
		client_watch(client);
		turns_add(client);
	}
}

static void on_throttle(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct connections *connections = container_of(w, struct connections, w_throttle);
	struct client *client, *next;
	double now = clock_now();
	bool ask_all = now - connections->asked_who_has_left >= LEFT_INTERVAL;

	if (ask_all)
		connections->asked_who_has_left = now;
	TAILQ_FOREACH(client, &connections->throttled, aside)
		client->holder.tenant->let_go = 0;
	for (client = TAILQ_FIRST(&connections->throttled); client; client = next) {
		next = TAILQ_NEXT(client, aside);
		look_after(client, now, ask_all);
	}
}

void throttle_init(struct connections *connections)
{
	TAILQ_INIT(&connections->throttled);
	ev_timer_init(&connections->w_throttle, on_throttle, 0., 0.);
}

void throttle_deinit(struct connections *connections)
{
	ev_timer_stop(connections->loop, &connections->w_throttle);
}
