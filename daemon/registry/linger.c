/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Nobody tells when the last copy of a file is closed, so the kernel is asked. Each question costs it a walk along the locks of
 * all data files, and is in front of what clients want of it. So each stream is asked about soon at first, since a process that
 * ends closes its files one after the other, and then after twice the time, up to a second: a charge is refunded within two
 * seconds. Where many streams of one tenant linger it is up to eight seconds for these. There is a limit on the questions in a
 * second, and tenants take turns: so what one tenant leaves behind delays its own refunds, and nobody else's.
 */

#include "daemon/registry/linger.h"

#include "daemon/daemon.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"

static void watch(struct daemon *daemon)
{
	if (ev_is_active(&daemon->w_linger) || TAILQ_EMPTY(&daemon->looks))
		return;
	ev_timer_set(&daemon->w_linger, MAX(bucket_wait(&daemon->look_tokens, daemon_now()), LINGER_FIRST), 0.);
	ev_timer_start(daemon->loop, &daemon->w_linger);
}

static void queue(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;
	struct daemon *daemon = stream->daemon;

	if (TAILQ_EMPTY(&tenant->due))
		TAILQ_INSERT_TAIL(&daemon->looks, tenant, look);
	stream->is_due = true;
	TAILQ_INSERT_TAIL(&tenant->due, stream, due);
	watch(daemon);
}

static void unqueue(struct stream *stream)
{
	struct tenant *tenant = stream->tenant;

	if (!stream->is_due)
		return;
	stream->is_due = false;
	TAILQ_REMOVE(&tenant->due, stream, due);
	if (TAILQ_EMPTY(&tenant->due))
		TAILQ_REMOVE(&stream->daemon->looks, tenant, look);
}

static void on_due(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	queue(container_of(w, struct stream, w_idle));
}

static void look_later(struct stream *stream)
{
	double last = MAX((double)stream->tenant->lingering_streams / LINGER_PER_SECOND, LINGER_LAST);

	stream->look_after = MIN(stream->look_after * 2, MIN(last, LINGER_MOST));
	ev_timer_init(&stream->w_idle, on_due, stream->look_after, 0.);
	ev_timer_start(stream->daemon->loop, &stream->w_idle);
}

/* The stream may have ended while the question was under way. */
static void on_still_open(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct stream *stream = stream_by_number(data, call->stream);

	if (stream && call->result == KERNEL_E_SELF_REGISTERED)
		stream_is_strange(stream);
	/* What nobody expected is no answer: charged until there is one. */
	if (stream && (call->result == KERNEL_E_GONE || call->result == KERNEL_E_NO_SUCH))
		stream_free(stream);
	else if (stream)
		look_later(stream);
	free(call);
}

static void look(struct stream *stream)
{
	struct kernel_call *call = malloc(sizeof(*call));

	bucket_take(&stream->daemon->look_tokens, daemon_now());
	if (!call) {
		look_later(stream);
		return;
	}
	*call = (struct kernel_call){
		.op = KERNEL_STILL_OPEN,
		.stream = stream->number,
		.index = stream->unwatched ? KERNEL_UNGUARDED : 0,
	};
	kernel_submit(stream->daemon->kernel, call, 1, on_still_open, stream->daemon);
}

static bool may_look(const struct daemon *daemon)
{
	return bucket_tokens(&daemon->look_tokens, daemon_now()) > 0;
}

static void on_linger(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_linger);
	struct tenant *tenant;

	while (may_look(daemon) && (tenant = TAILQ_FIRST(&daemon->looks))) {
		struct stream *stream = TAILQ_FIRST(&tenant->due);

		unqueue(stream);
		if (!TAILQ_EMPTY(&tenant->due)) {
			TAILQ_REMOVE(&daemon->looks, tenant, look);
			TAILQ_INSERT_TAIL(&daemon->looks, tenant, look);
		}
		look(stream);
	}
	watch(daemon);
}

void linger_begin(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;

	stream->lingers = true;
	stream->look_after = LINGER_FIRST / 2;
	stream->tenant->lingering_streams++;
	TAILQ_INSERT_TAIL(&daemon->lingering, stream, idle);
	if (TAILQ_EMPTY(&daemon->looks) && may_look(daemon))
		look(stream);
	else
		queue(stream);
}

void linger_end(struct stream *stream)
{
	if (!stream->lingers)
		return;
	stream->lingers = false;
	stream->tenant->lingering_streams--;
	ev_timer_stop(stream->daemon->loop, &stream->w_idle);
	unqueue(stream);
	TAILQ_REMOVE(&stream->daemon->lingering, stream, idle);
}

void linger_init(struct daemon *daemon)
{
	/* The daemon's own streams are asked without any walk. */
	bool is_cheap = daemon->kernel->tracer;
	uint32_t rate = is_cheap ? LOOKS_OWN : LOOKS_PER_SECOND;

	bucket_init(&daemon->look_tokens, rate, rate / 5, daemon_now());
	ev_timer_init(&daemon->w_linger, on_linger, 0., 0.);
}

void linger_deinit(struct daemon *daemon)
{
	ev_timer_stop(daemon->loop, &daemon->w_linger);
}
