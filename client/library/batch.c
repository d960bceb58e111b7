/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The batches form one queue, in which events are sent to the daemon and answered by it. A new connection starts again at the
 * front. The state of a single event is in the event itself.
 *
 * A batch that is released with answers pending stays in the queue, without events, until the last answer. A refused event that
 * stays registered is off, and keeps its place in the queue for the next connection.
 */

#include "client/library/batch.h"
#include "client/library/memory.h"
#include "client/library/place.h"
#include "client/library/stream.h"

struct batch *batch_new(struct events *events, struct userev_event *first, size_t n, size_t size)
{
	struct batch *batch = memory_new(size);

	if (!batch)
		return NULL;
	batch->event = first;
	batch->n = (uint32_t)n;
	QUEUE_INIT(&batch->sentences);
	QUEUE_APPEND(&events->batches, batch);
	if (!events->unanswered)
		events->unanswered = batch;
	if (!events->unasked)
		events->unasked = batch;
	BATCH_FOREACH(event, batch)
	place_wait(event, events->ungranted);
	return batch;
}

struct batch *batch_new_single(struct events *events, struct userev_event *event, const char *description,
			       unsigned flags)
{
	const size_t length = strlen(description);
	const char *name = description + strspn(description, " \t");
	const size_t name_length = strcspn(name, " \t:;");
	struct batch_single *single;
	struct batch *batch = batch_new(events, event, 1, sizeof(*single) + length + 1 + name_length + 1);

	if (!batch)
		return NULL;
	single = container_of(batch, struct batch_single, batch);
	memcpy(single->text, description, length);
	memcpy(single->text + length + 1, name, name_length);
	single->declaration = (struct userev_declaration){
		.name = single->text + length + 1,
		.description = single->text,
		.flags = flags,
	};
	event->declared = &single->declaration;
	return batch;
}

struct batch *batch_of(const struct events *events, const struct userev_event *event)
{
	struct batch *batch;

	if (!events->are_declared)
		return &container_of(event->declared, struct batch_single, declaration)->batch;
	QUEUE_FOREACH(batch, &events->batches)
		if (batch->event && event >= batch->event && event < batch->event + batch->n)
			break;
	return batch;
}

static void batches_scan_next(struct events *events)
{
	events->scan_batch = QUEUE_NEXT(events->scan_batch);
	events->scan_at = 0;
}

void batch_free(struct events *events, struct batch *batch)
{
	struct batch *next = QUEUE_NEXT(batch);

	if (events->unanswered == batch)
		events->unanswered = next;
	if (events->unasked == batch)
		events->unasked = next;
	if (events->scan_batch == batch)
		batches_scan_next(events);
	QUEUE_REMOVE(&events->batches, batch);
	sentences_free(&batch->sentences);
	memory_free(batch);
}

void batch_release(struct events *events, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	{
		place_clear(event);
		if (!events->are_declared)
			event->declared = NULL;
	}
	batch->event = NULL;
	if (batch->asked == batch->answered) {
		batch_free(events, batch);
		return;
	}
	/* The rest of the batch is not sent. */
	if (events->unasked == batch)
		events->unasked = QUEUE_NEXT(batch);
	batch->n = batch->asked;
}

void batch_drop(struct events *events, struct batch *batch)
{
	batch->asked = batch->answered;
	batch_release(events, batch);
}

void batches_place(struct events *events, void (*place)(struct userev_event *, const struct stream *ungranted))
{
	struct batch *batch;

	QUEUE_FOREACH(batch, &events->batches)
		BATCH_FOREACH(event, batch)
	place(event, events->ungranted);
}

void batches_suspend(struct events *events)
{
	struct batch *batch, *next;

	batches_place(events, place_wait);
	for (batch = QUEUE_FIRST(&events->batches); batch; batch = next) {
		next = QUEUE_NEXT(batch);
		batch->asked = batch->answered;
		if (!batch->event)
			batch_free(events, batch);
	}
	events->unasked = events->unanswered;
}

void batches_ask_anew(struct events *events)
{
	struct batch *batch;

	QUEUE_FOREACH(batch, &events->batches)
		batch->asked = batch->answered = 0;
	events->unanswered = events->unasked = QUEUE_FIRST(&events->batches);
}

void batches_scan_again(struct events *events)
{
	events->scan_batch = QUEUE_FIRST(&events->batches);
	events->scan_at = 0;
}

struct userev_event *batches_next_changed(struct events *events)
{
	for (; events->scan_batch; batches_scan_next(events)) {
		const struct batch *batch = events->scan_batch;

		while (batch->event && events->scan_at < batch->n) {
			struct userev_event *event = &batch->event[events->scan_at++];

			if (place_has_changed(event))
				return event;
		}
	}
	return NULL;
}
