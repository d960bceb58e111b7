/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Nobody is refused for asking too often: it waits, as it would for a daemon that is busy, in its own socket. The others'
 * turns go on meanwhile. One timer looks after all who stand aside, and runs only while there are such. They go on in the
 * order in which they came, as many as there are tokens; who has ended meanwhile is noticed then, or a little later than it
 * happened, since to ask costs a system call each.
 *
 * Likewise one whose siblings have left too much unread, or too many fds in flight: until they have read that, or their
 * patience has ended.
 *
 * A tenant ends with its last connection, and would begin with a full bucket whenever it comes again, and with a line in the
 * log for each refusal: so its level is kept until what has been taken there is back, and until the next line is due.
 */

#include "daemon/connection/throttle.h"

#include <poll.h>

#include "daemon/connection/inflight.h"
#include "daemon/daemon.h"
#include "daemon/registry/tenant.h"

static void watch(struct daemon *daemon, double wait)
{
	if (ev_is_active(&daemon->w_throttle) && ev_timer_remaining(daemon->loop, &daemon->w_throttle) <= wait)
		return;
	ev_timer_stop(daemon->loop, &daemon->w_throttle);
	ev_timer_set(&daemon->w_throttle, MAX(wait, THROTTLE_LEAST), 0.);
	ev_timer_start(daemon->loop, &daemon->w_throttle);
}

static void stand_aside(struct client *client, double wait)
{
	client->throttled = true;
	client->tenant->throttled++;
	TAILQ_INSERT_TAIL(&client->daemon->throttled, client, aside);
	client_watch(client);
	watch(client->daemon, wait);
}

/* Seconds; 0: it may ask. */
static double wait_of(const struct tenant *tenant, double now)
{
	double wait = level_wait(tenant->level, now);

	return tenant->waiting < WAITING_BYTES_MAX && inflight_has_room(tenant) ? wait : MAX(wait, WAITING_INTERVAL);
}

bool throttle_passes(struct client *client)
{
	double wait = wait_of(client->tenant, daemon_now());

	if (wait > 0.)
		stand_aside(client, wait);
	return wait <= 0.;
}

void throttle_count(struct client *client)
{
	level_take(client->tenant->level, daemon_now());
}

void throttle_remove(struct client *client)
{
	if (client->throttled)
		TAILQ_REMOVE(&client->daemon->throttled, client, aside);
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
	struct tenant *tenant = client->tenant;
	double wait = wait_of(tenant, now);
	bool has_to_wait = wait > 0. || tenant->let_go >= level_tokens(tenant->level, now);

	if ((ask_all || !has_to_wait) && has_left(client)) {
		client_close(client);
	} else if (has_to_wait) {
		watch(client->daemon, wait);
	} else {
		tenant->let_go++;
		throttle_remove(client);
		client_watch(client);
		turns_add(&client->daemon->turns, client);
	}
}

static void on_throttle(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_throttle);
	struct client *client, *next;
	double now = daemon_now();
	bool ask_all = now - daemon->asked_who_has_left >= LEFT_INTERVAL;

	if (ask_all)
		daemon->asked_who_has_left = now;
	TAILQ_FOREACH(client, &daemon->throttled, aside)
		client->tenant->let_go = 0;
	for (client = TAILQ_FIRST(&daemon->throttled); client; client = next) {
		next = TAILQ_NEXT(client, aside);
		look_after(client, now, ask_all);
	}
}

static void forget(struct daemon *daemon, struct level *level)
{
	TAILQ_REMOVE(&daemon->resting, level, rests);
	daemon->n_resting--;
	level->rests_already = false;
	level_unref(level);
}

void throttle_remember(struct daemon *daemon, struct level *level)
{
	if (level->rests_already || level_is_rested(level, daemon_now()))
		return;
	if (daemon->n_resting == RESTING_MAX)
		forget(daemon, TAILQ_FIRST(&daemon->resting));
	level_ref(level);
	TAILQ_INSERT_TAIL(&daemon->resting, level, rests);
	daemon->n_resting++;
	level->rests_already = true;
	if (!ev_is_active(&daemon->w_rest))
		ev_timer_again(daemon->loop, &daemon->w_rest);
}

static void on_rest(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_rest);
	struct level *level, *next;
	double now = daemon_now();

	for (level = TAILQ_FIRST(&daemon->resting); level; level = next) {
		next = TAILQ_NEXT(level, rests);
		if (level_is_rested(level, now))
			forget(daemon, level);
	}
	if (TAILQ_EMPTY(&daemon->resting))
		ev_timer_stop(loop, w);
}

void throttle_init(struct daemon *daemon)
{
	TAILQ_INIT(&daemon->throttled);
	TAILQ_INIT(&daemon->resting);
	ev_timer_init(&daemon->w_throttle, on_throttle, 0., 0.);
	ev_timer_init(&daemon->w_rest, on_rest, 0., REST_INTERVAL);
}

void throttle_forget(struct daemon *daemon)
{
	while (!TAILQ_EMPTY(&daemon->resting))
		forget(daemon, TAILQ_FIRST(&daemon->resting));
}

void throttle_deinit(struct daemon *daemon)
{
	throttle_forget(daemon);
	ev_timer_stop(daemon->loop, &daemon->w_throttle);
	ev_timer_stop(daemon->loop, &daemon->w_rest);
}
