/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The kernel does not report when the last copy of a file is closed, so it is polled. Each poll is a walk along the locks of
 * all data files, and delays the calls of clients behind it. So the first poll for a stream comes soon, since a process that
 * exits closes its files one after the other, and each further one after twice the time, up to a second: a charge is refunded
 * within two seconds. If many streams of one tenant linger, the interval is up to eight seconds for these. The number of
 * polls in a second is limited, and tenants take turns: the streams that one tenant leaves behind delay its own refunds
 * alone.
 */

#include "daemon/registry/linger.h"

#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"

static void linger_watch(struct registry *registry)
{
	if (ev_is_active(&registry->w_linger) || TAILQ_EMPTY(&registry->looks))
		return;
	ev_timer_set(&registry->w_linger, MAX(bucket_wait(&registry->look_tokens, clock_now()), LINGER_FIRST), 0.);
	ev_timer_start(registry->loop, &registry->w_linger);
}

static void linger_queue(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;
	struct registry *registry = stream->registry;

	if (TAILQ_EMPTY(&tenant->due))
		TAILQ_INSERT_TAIL(&registry->looks, tenant, look);
	stream->is_due = true;
	TAILQ_INSERT_TAIL(&tenant->due, stream, due);
	linger_watch(registry);
}

static void linger_unqueue(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;

	if (!stream->is_due)
		return;
	stream->is_due = false;
	TAILQ_REMOVE(&tenant->due, stream, due);
	if (TAILQ_EMPTY(&tenant->due))
		TAILQ_REMOVE(&stream->registry->looks, tenant, look);
}

static void linger_on_due(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	linger_queue(container_of(w, struct stream, w_idle));
}

static void linger_ask_later(struct stream *stream)
{
	double last = MAX((double)stream->tenant->lingering_streams / LINGER_PER_SECOND, LINGER_LAST);

	stream->look_after = MIN(stream->look_after * 2, MIN(last, LINGER_MOST));
	ev_timer_init(&stream->w_idle, linger_on_due, stream->look_after, 0.);
	ev_timer_start(stream->registry->loop, &stream->w_idle);
}

/* The stream may have ended while the question was under way. */
static void linger_on_answer(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct stream *stream = stream_by_number(data, call->stream);

	if (stream && !stream->lingers)
		stream = NULL;
	if (stream && call->result == KERNEL_E_SELF_REGISTERED)
		stream_note_self_registered(stream);
	/* After an unexpected answer the charge stays, and the kernel is asked again. */
	if (stream && (call->result == KERNEL_E_GONE || call->result == KERNEL_E_NO_SUCH))
		stream_free(stream);
	else if (stream)
		linger_ask_later(stream);
	free(call);
}

static void linger_ask(struct stream *stream)
{
	struct kernel_call *call = malloc(sizeof(*call));

	bucket_take(&stream->registry->look_tokens, clock_now());
	if (!call) {
		linger_ask_later(stream);
		return;
	}
	*call = (struct kernel_call){
		.op = KERNEL_STILL_OPEN,
		.stream = stream->number,
		.index = stream->unwatched ? KERNEL_UNGUARDED : 0,
	};
	kernel_submit(stream->registry->kernel, call, 1, linger_on_answer, stream->registry);
}

static bool linger_may_ask(const struct registry *registry)
{
	return bucket_tokens(&registry->look_tokens, clock_now()) > 0;
}

static void linger_on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct registry *registry = container_of(w, struct registry, w_linger);
	struct tenant *tenant;

	while (linger_may_ask(registry) && (tenant = TAILQ_FIRST(&registry->looks))) {
		struct stream *stream = TAILQ_FIRST(&tenant->due);

		linger_unqueue(stream);
		if (!TAILQ_EMPTY(&tenant->due)) {
			TAILQ_REMOVE(&registry->looks, tenant, look);
			TAILQ_INSERT_TAIL(&registry->looks, tenant, look);
		}
		linger_ask(stream);
	}
	linger_watch(registry);
}

void linger_begin(struct stream *stream)
{
	struct registry *registry = stream->registry;

	stream->lingers = true;
	stream->look_after = LINGER_FIRST / 2;
	stream->tenant->lingering_streams++;
	TAILQ_INSERT_TAIL(&registry->lingering, stream, idle);
	if (TAILQ_EMPTY(&registry->looks) && linger_may_ask(registry))
		linger_ask(stream);
	else
		linger_queue(stream);
}

void linger_end(struct stream *stream)
{
	if (!stream->lingers)
		return;
	stream->lingers = false;
	stream->tenant->lingering_streams--;
	ev_timer_stop(stream->registry->loop, &stream->w_idle);
	linger_unqueue(stream);
	TAILQ_REMOVE(&stream->registry->lingering, stream, idle);
}

void linger_init(struct registry *registry)
{
	/* The daemon's own streams are asked without any walk. */
	bool is_cheap = registry->kernel->tracer;
	uint32_t rate = is_cheap ? LOOKS_OWN : LOOKS_PER_SECOND;

	bucket_init(&registry->look_tokens, rate, LOOKS_AT_ONCE, clock_now());
	ev_timer_init(&registry->w_linger, linger_on_timer, 0., 0.);
}
