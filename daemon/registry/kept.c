/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/kept.h"

#include "daemon/limits.h"
#include "daemon/registry/event.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

void kept_end(struct stream *stream)
{
	struct level *level = stream->tenant->level;

	if (!stream->kept)
		return;
	stream->kept = false;
	ev_timer_stop(stream->registry->loop, &stream->w_idle);
	TAILQ_REMOVE(&level->kept, stream, idle);
	level->n_kept--;
}

static void kept_on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	stream_leave(container_of(w, struct stream, w_idle));
}

/* Whether each event of the kept stream is also on the other, which may be of the next tenant of that path. */
static bool kept_is_replaced_by(const struct stream *stream, const struct stream *kept)
{
	const struct reference *reference;

	ID_TABLE_FOREACH(reference, &kept->references) {
		const struct grant *grant = grant_find(stream->tenant, reference->grant->event);

		if (!grant || !reference_there(stream, grant))
			return false;
	}
	return true;
}

void kept_replace(const struct stream *stream)
{
	struct stream *kept, *next;

	for (kept = TAILQ_FIRST(&stream->tenant->level->kept); kept; kept = next) {
		next = TAILQ_NEXT(kept, idle);
		if (kept != stream && kept_is_replaced_by(stream, kept))
			stream_leave(kept);
	}
}

bool kept_yield(struct level *level)
{
	bool any = !TAILQ_EMPTY(&level->kept);

	/* The last stream may hold the last reference to the level. */
	level_ref(level);
	while (!TAILQ_EMPTY(&level->kept))
		stream_leave(TAILQ_FIRST(&level->kept));
	level_unref(level);
	return any;
}

bool kept_is_needed(const struct stream *stream)
{
	const struct reference *at, *other;

	ID_TABLE_FOREACH(at, &stream->references) {
		LIST_FOREACH(other, &at->grant->registered, in_grant)
			if (other != at && other->stream->users > 0)
				break;
		if (!other)
			return true;
	}
	return false;
}

void kept_begin(struct stream *stream)
{
	struct level *level = stream->tenant->level;

	stream->kept = true;
	ev_timer_init(&stream->w_idle, kept_on_timer, rules_keep_for(stream->tenant), 0.);
	ev_timer_start(stream->registry->loop, &stream->w_idle);
	TAILQ_INSERT_TAIL(&level->kept, stream, idle);
	level->n_kept++;
	kept_replace(stream);
	if (level->n_kept > KEPT_MAX)
		stream_leave(TAILQ_FIRST(&level->kept));
}
