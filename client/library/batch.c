/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The batches form one queue, in which events are sent to the daemon and answered by it. A new connection starts again at the
 * front. What the library knows of a single event is in the event itself.
 *
 * A batch that is released with answers pending stays in the queue, without events, until the last answer. A refused event is
 * dropped by the call that registers it. If that call has returned already, the event is off and keeps its place in the queue for
 * the next connection.
 */

#include "client/library/batch.h"
#include "client/library/memory.h"
#include "client/library/place.h"
#include "client/library/register.h"
#include "client/library/release.h"
#include "client/library/session.h"
#include "client/library/watch.h"

void batch_add(struct userev *userev, struct batch *batch, struct userev_event *first, size_t n)
{
	batch->event = first;
	batch->n = (uint32_t)n;
	SLIST_INIT(&batch->sentences);
	TAILQ_INSERT_TAIL(&userev->batches, batch, entry);
	if (!userev->unanswered)
		userev->unanswered = batch;
	if (!userev->unasked)
		userev->unasked = batch;
	BATCH_FOREACH(event, batch)
	place_wait(userev, event);
}

struct batch *batch_of(const struct userev_event *event)
{
	const struct userev *userev = stream_at(event->place)->userev;
	struct batch *batch;

	if (!userev->declares)
		return &register_single_of(event)->batch;
	TAILQ_FOREACH(batch, &userev->batches, entry)
		if (batch->event && event >= batch->event && event < batch->event + batch->n)
			break;
	return batch;
}

void batch_free(struct userev *userev, struct batch *batch)
{
	struct batch *next = TAILQ_NEXT(batch, entry);

	if (userev->unanswered == batch)
		userev->unanswered = next;
	if (userev->unasked == batch)
		userev->unasked = next;
	if (userev->scan_batch == batch)
		watch_scan_next(userev);
	TAILQ_REMOVE(&userev->batches, batch, entry);
	sentences_free(&batch->sentences);
	memory_free(batch);
}

static void batch_clear_events(const struct userev *userev, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	{
		place_clear(event);
		if (!userev->declares)
			event->declared = NULL;
	}
	batch->event = NULL;
}

void batch_drop(struct userev *userev, struct batch *batch)
{
	batch_clear_events(userev, batch);
	batch_free(userev, batch);
}

void batch_release(struct userev *userev, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	if (place_is_granted(event->place))
		release_bit(userev, event->place.part.bit & PLACE_BIT);
	batch_clear_events(userev, batch);
	if (batch->asked == batch->answered) {
		batch_free(userev, batch);
		return;
	}
	/* The rest of the batch is not sent. */
	if (userev->unasked == batch)
		userev->unasked = TAILQ_NEXT(batch, entry);
	batch->n = batch->asked;
}

void batches_suspend(struct userev *userev)
{
	struct batch *batch, *next;

	for (batch = TAILQ_FIRST(&userev->batches); batch; batch = next) {
		next = TAILQ_NEXT(batch, entry);
		batch->asked = batch->answered;
		BATCH_FOREACH(event, batch)
		place_wait(userev, event);
		if (!batch->event)
			batch_free(userev, batch);
	}
	userev->unasked = userev->unanswered;
}

void batches_resume(struct userev *userev)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &userev->batches, entry)
		BATCH_FOREACH(event, batch)
	place_resume(userev, event);
}

void batches_ask_anew(struct userev *userev)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &userev->batches, entry)
		batch->asked = batch->answered = 0;
	userev->unanswered = userev->unasked = TAILQ_FIRST(&userev->batches);
}

void batches_wait(struct userev *userev)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &userev->batches, entry)
		BATCH_FOREACH(event, batch)
	place_wait_anew(userev, event);
	watch_scan_again(userev);
}
