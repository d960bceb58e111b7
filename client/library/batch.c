/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The events that are registered stand in one queue of batches, in which they are asked for and answered; a new connection begins
 * again at the front. All that the library knows of a single event is in the event itself.
 *
 * A batch that is released while some of it is under way stays, without its events, until that is answered. An event that the
 * daemon refuses is gone with the call that registered it; if that has returned, it is off, and keeps its place until the next
 * connection.
 */

#include "client/library/library.h"

void batch_add(struct userev *userev, struct batch *batch, struct userev_event *first, size_t n)
{
	batch->event = first;
	batch->n = (uint32_t)n;
	SLIST_INIT(&batch->said);
	TAILQ_INSERT_TAIL(&userev->batches, batch, entry);
	if (!userev->unanswered)
		userev->unanswered = batch;
	if (!userev->unasked)
		userev->unasked = batch;
	BATCH_FOREACH(event, batch)
	event_waits(userev, event);
}

static struct batch *find_among_declared(const struct userev *userev, const struct userev_event *event)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &userev->batches, entry)
		if (batch->event && event >= batch->event && event < batch->event + batch->n)
			break;
	return batch;
}

struct batch *batch_of(const struct userev_event *event)
{
	const struct userev *userev = stream_at(event->place)->userev;

	return userev->declares ? find_among_declared(userev, event) : &single_of(event)->batch;
}

void batch_free(struct userev *userev, struct batch *batch)
{
	struct batch *next = TAILQ_NEXT(batch, entry);

	if (userev->unanswered == batch)
		userev->unanswered = next;
	if (userev->unasked == batch)
		userev->unasked = next;
	if (userev->look_from == batch)
		changes_look_behind(userev);
	TAILQ_REMOVE(&userev->batches, batch, entry);
	sentences_free(&batch->said);
	memory_free(batch);
}

static void forget_events(const struct userev *userev, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	{
		event_forget(event);
		if (!userev->declares)
			event->declared = NULL;
	}
	batch->event = NULL;
}

void batch_drop(struct userev *userev, struct batch *batch)
{
	forget_events(userev, batch);
	batch_free(userev, batch);
}

/* No more of it is asked for. */
static void wait_for_answers(struct userev *userev, struct batch *batch)
{
	if (userev->unasked == batch)
		userev->unasked = TAILQ_NEXT(batch, entry);
	batch->n = batch->asked;
}

void batch_release(struct userev *userev, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	if (place_is_granted(event->place))
		bit_leaves(userev, event->place.part.bit & PLACE_BIT);
	forget_events(userev, batch);
	if (batch->asked > batch->answered)
		wait_for_answers(userev, batch);
	else
		batch_free(userev, batch);
}

void batches_suspend(struct userev *userev)
{
	struct batch *batch, *next;

	for (batch = TAILQ_FIRST(&userev->batches); batch; batch = next) {
		next = TAILQ_NEXT(batch, entry);
		batch->asked = batch->answered;
		BATCH_FOREACH(event, batch)
		event_waits(userev, event);
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
	event_goes_on(userev, event);
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
	event_waits_anew(userev, event);
	changes_look_again(userev);
}
