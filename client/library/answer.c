/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What becomes of an event when the daemon has answered for it. Answers come in the order of the questions. */

#include "client/library/library.h"

static int take_name(struct batch *batch, const struct userev_event *event, const struct answer *answer)
{
	const char *declared = event->declared->name;

	said_no_refusal(batch, event);
	if (answer->length > 0)
		return said_is_named(batch, event, answer->text, answer->length);
	return said_is_named(batch, event, declared, strlen(declared));
}

static int take_grant(struct userev *userev, struct batch *batch, struct userev_event *event,
		      const struct answer *answer)
{
	const struct stream *stream = streams_find(&userev->streams, answer->stream);
	union userev_place place;
	int r = 0;

	if (!stream || answer->bit == 0 || answer->bit >= userev->limits.page_bits)
		return -EPROTO;
	userev->bits_differ = false;
	if (!event) {
		bit_leaves(userev, answer->bit);
		return 0;
	}
	r = take_name(batch, event, answer);
	if (r < 0)
		return r;
	place.part.index = answer->index;
	place.part.stream = stream->slot;
	place.part.bit = (uint16_t)answer->bit;
	event_is_granted(event, place);
	return 0;
}

static struct userev_registration *who_asks(const struct userev *userev, struct batch *batch)
{
	return userev->declares ? NULL : container_of(batch, struct single, batch)->asked;
}

static void tell_who_asks(struct userev *userev, struct userev_registration *asked, int error, const char *text,
			  size_t length)
{
	struct sentence *sentence = sentence_new(asked->event, text, length);

	asked->result = error;
	asked->why = sentence ? sentence->text : "refused, and there is no memory to say why";
	if (sentence)
		SLIST_INSERT_HEAD(&userev->sentences, sentence, entry);
}

static void take_refusal(struct userev *userev, struct batch *batch, struct userev_event *event,
			 const struct answer *answer)
{
	const char *name = refusal_name(answer->refusal);
	const char *text = answer->length > 0 ? answer->text : name;
	const size_t length = answer->length > 0 ? answer->length : strlen(name);
	struct userev_registration *asked = who_asks(userev, batch);

	explain_refusal(userev, event ? event->declared->description : "what was released", text, length);
	refusal_set(text, length);
	if (!event)
		return;
	if (asked) {
		tell_who_asks(userev, asked, refusal_to_errno(answer->refusal), text, length);
		batch_drop(userev, batch);
		return;
	}
	said_refusal(batch, event, text, length);
	event_is_refused(userev, event);
}

static int take_answer(struct userev *userev, const struct answer *answer)
{
	struct batch *batch = userev->unanswered;
	struct userev_event *event = batch->event ? &batch->event[batch->answered] : NULL;
	int r = 0;

	batch->answered++;
	if (batch->answered == batch->n)
		userev->unanswered = TAILQ_NEXT(batch, entry);
	if (answer->refusal == REFUSAL_NONE)
		r = take_grant(userev, batch, event, answer);
	else
		take_refusal(userev, batch, event, answer);
	/* The last that was awaited of those that have been released. */
	if (!event && batch->answered == batch->n)
		batch_free(userev, batch);
	return r;
}

int answers_take(struct userev *userev, const struct message *message, uint16_t count)
{
	struct answers answers;
	struct answer answer;
	int r = 0;

	if (decode_registered(message->body, &answers) != 0 || answers.count != count)
		return -EPROTO;
	while (r == 0 && answers_next(&answers, &answer))
		r = take_answer(userev, &answer);
	explain(userev, "%u events answered%s", count, userev->unanswered ? ", more to come" : "");
	changes_look_again(userev);
	return r;
}
