/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/client.h"
#include "daemon/process/clock.h"
#include "daemon/registry/refusals.h"

/* The list is in order of time, so the timer is for the oldest deadline. Without a deadline the timer is stopped. */
static void watch_deadlines(struct connections *connections)
{
	const struct client *oldest = TAILQ_FIRST(&connections->impatient);

	ev_timer_stop(connections->loop, &connections->w_deadlines);
	if (!oldest)
		return;
	ev_timer_set(&connections->w_deadlines,
		     MAX(oldest->since + connections->registry->options->client_timeout - clock_now(), 0.001), 0.);
	ev_timer_start(connections->loop, &connections->w_deadlines);
}

void deadline_set(struct client *client)
{
	struct connections *connections = client->connections;

	if (client->since > 0. || client->socket == SOCKET_CONTROL)
		return;
	client->since = clock_now();
	TAILQ_INSERT_TAIL(&connections->impatient, client, deadline);
	watch_deadlines(connections);
}

void deadline_clear(struct client *client)
{
	if (client->since <= 0.)
		return;
	client->since = 0.;
	TAILQ_REMOVE(&client->connections->impatient, client, deadline);
	watch_deadlines(client->connections);
}

static void on_deadlines(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct connections *connections = container_of(w, struct connections, w_deadlines);
	struct client *client, *next;

	for (client = TAILQ_FIRST(&connections->impatient); client; client = next) {
		next = TAILQ_NEXT(client, deadline);
		if (clock_now() - client->since < connections->registry->options->client_timeout)
			break;
		if ((client->waiting && !client->later) || client->stall == STALL_UNREAD) {
			refusal_note(connections->registry, client->holder.tenant, NULL, REFUSAL_TOO_SLOW,
				     "it does not read its answers");
			client_close(client);
		} else if (client->stall == STALL_TURN || client->stall == STALL_RATE || client->later) {
			/* It has sent a request, and the delay is ours. */
			deadline_clear(client);
			deadline_set(client);
		} else if (client->task) {
			client_disconnect(client, 0, REFUSAL_TROUBLE, "no status page could be made within %u seconds",
					  connections->registry->options->client_timeout);
		} else {
			client_disconnect(client, 0, REFUSAL_TOO_SLOW, "no HELLO within %u seconds",
					  connections->registry->options->client_timeout);
		}
	}
	watch_deadlines(connections);
}

void deadlines_init(struct connections *connections)
{
	TAILQ_INIT(&connections->impatient);
	ev_init(&connections->w_deadlines, on_deadlines);
}
