/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sends events in REGISTER, and takes the answers of REGISTERED, which are in the same order. */

#include "client/library/debug.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "protocol/refusal.h"

/* Sends as many events as fit, from `unasked` on. */
int register_ask(struct userev *userev)
{
	struct packet packet = connection_begin(&userev->connection, KIND_REGISTER);
	const size_t mark = encode_list(&packet, 0);
	struct events *events = &userev->events;
	struct batch *batch = events->unasked;
	uint32_t at = batch ? batch->asked : 0;
	uint16_t count = 0;
	int r;

	while (batch && count < userev->connection.limits.batch_max) {
		const struct userev_declaration *declared = batch->event[at].declared;
		const size_t length = strlen(declared->description);

		if (sizeof(struct wire_string) + length + padding(length) > packet.capacity - packet.size)
			break;
		encode_string(&packet, (uint16_t)declared->flags, declared->description, length);
		count++;
		if (++at == batch->n) {
			batch = QUEUE_NEXT(batch);
			at = 0;
		}
	}
	if (count == 0)
		return 0;
	encode_count(&packet, mark, count);
	r = connection_ask(&userev->connection, &packet, KIND_REGISTERED, count);
	if (r <= 0)
		return r;
	for (; events->unasked != batch; events->unasked = QUEUE_NEXT(events->unasked))
		events->unasked->asked = events->unasked->n;
	if (batch)
		batch->asked = at;
	return r;
}

static int register_take_grant(struct userev *userev, struct batch *batch, struct userev_event *event,
			       const struct answer *answer)
{
	const struct stream *stream;
	union userev_place place;
	const char *name;
	int r;

	QUEUE_FOREACH(stream, &userev->files.streams)
		if (stream->number == answer->stream)
			break;
	if (!stream || answer->bit == 0 || answer->bit >= userev->connection.limits.page_bits)
		return -EPROTO;
	userev->bits_differ = false;
	if (!event) {
		release_bit(userev, answer->bit);
		return 0;
	}
	name = answer->length > 0 ? answer->text : event->declared->name;
	r = sentence_set_name(&batch->sentences, event, name, answer->length > 0 ? answer->length : strlen(name));
	if (r < 0)
		return r;
	place.part.index = answer->index;
	place.part.stream = stream->slot;
	place.part.bit = (uint16_t)answer->bit;
	place_grant(event, place);
	return 0;
}

static int register_take_refusal(struct userev *userev, struct batch *batch, struct userev_event *event,
				 const struct answer *answer)
{
	const char *text = answer->length > 0 ? answer->text : refusal_name(answer->refusal);
	const size_t length = answer->length > 0 ? answer->length : strlen(text);

	debug_refusal(event ? event->declared->description : "(released)", text, length);
	sentence_set_last(text, length);
	if (!event)
		return 0;
	place_refuse(event, userev->events.ungranted);
	return sentence_add(&batch->sentences, event, answer->refusal, text, length);
}

int register_take(struct userev *userev, const struct message *message, struct fdset *fds _unused_, uint16_t count)
{
	struct events *events = &userev->events;
	struct strings answers;
	struct answer answer;
	int r = 0;

	if (decode_registered(message->body, &answers) != 0 || answers.count != count)
		return -EPROTO;
	while (r == 0 && answers_next(&answers, &answer)) {
		struct batch *batch = events->unanswered;
		struct userev_event *event = batch->event ? &batch->event[batch->answered] : NULL;
		const bool is_last = ++batch->answered == batch->n;

		if (is_last)
			events->unanswered = QUEUE_NEXT(batch);
		/* The answer replaces an earlier refusal. */
		if (event)
			sentence_drop(&batch->sentences, sentence_refusal(&batch->sentences, event));
		if (answer.refusal == REFUSAL_NONE)
			r = register_take_grant(userev, batch, event, &answer);
		else
			r = register_take_refusal(userev, batch, event, &answer);
		if (is_last && !event)
			batch_free(events, batch);
	}
	debug_print("%u events answered%s", count, events->unanswered ? ", others are pending" : "");
	batches_scan_again(events);
	return r;
}
