/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The end of a tail of which no record may be missing, as of a recording. */

#include "client/userevctl/tracing/tracefs.h"

static int follower_end(struct follower *follower, struct record_view *view)
{
	int r;

	for (struct follower_event *event = follower->events; event; event = event->by_shown.next) {
		if (event->on)
			tracefs_turn(follower->instance, &event->event, false);
		event->on = false;
	}
	r = tracing_settle(follower->tracing);
	follower_stopped = 0;
	follower_drain(follower, view);
	return r;
}

int tail_end(struct tracing *tracing, struct record_view *view)
{
	int r;

	if (tracing->own)
		return tracing->own_calls->end(tracing, view);
	if (tracing->kernel)
		return follower_end(tracing->follower, view);
	/* The answer is behind the last record. */
	tracing->control->timeout = CONTROL_TIMEOUT_MS;
	r = control_ask(tracing->control, KIND_SYNC);
	do {
		r = r == 0 ? record_view_take(view, tracing->control) : r;
	} while (r == 0 && tracing->control->more);
	return r < 0 ? control_explain(tracing->ctl->control_socket, r) : EXIT_DONE;
}
