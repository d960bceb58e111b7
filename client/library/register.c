/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks a registration, sends it in a REGISTER, and takes the answers of REGISTERED, which are in the same order. */

#include "client/library/register.h"
#include "client/library/debug.h"
#include "client/library/event.h"
#include "client/library/lock.h"
#include "client/library/memory.h"
#include "client/library/place.h"
#include "client/library/public.h"
#include "client/library/release.h"
#include "client/library/watch.h"

struct register_single *register_single_of(const struct userev_event *event)
{
	return container_of(event->declared, struct register_single, declaration);
}

bool register_is_wanted(const struct userev *userev)
{
	return userev->unasked != NULL;
}

/* Sends as many events as fit, from `unasked` on. */
int register_ask(struct userev *userev, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	struct batch *batch = userev->unasked;
	uint32_t at = batch->asked;
	uint16_t count = 0;
	size_t mark;
	int r;

	encode_begin(&packet, KIND_REGISTER, userev->serial + 1, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	while (batch && count < userev->limits.batch_max) {
		const struct userev_declaration *declared = batch->event[at].declared;
		const size_t length = strlen(declared->description);

		if (sizeof(struct wire_string) + length + padding(length) > packet.capacity - packet.size)
			break;
		encode_string(&packet, (uint16_t)declared->flags, declared->description, length);
		count++;
		if (++at == batch->n) {
			batch = TAILQ_NEXT(batch, entry);
			at = 0;
		}
	}
	encode_count(&packet, mark, count);
	encode_end(&packet);
	r = session_ask(userev, &packet, KIND_REGISTERED, count);
	if (r <= 0)
		return r;
	for (; userev->unasked != batch; userev->unasked = TAILQ_NEXT(userev->unasked, entry))
		userev->unasked->asked = userev->unasked->n;
	if (batch)
		batch->asked = at;
	return r;
}

static int register_take_grant(struct userev *userev, struct batch *batch, struct userev_event *event,
			       const struct answer *answer)
{
	const struct stream *stream = streams_find(&userev->streams, answer->stream);
	union userev_place place;
	int r;

	if (!stream || answer->bit == 0 || answer->bit >= userev->limits.page_bits)
		return -EPROTO;
	userev->bits_differ = false;
	if (!event) {
		release_bit(userev, answer->bit);
		return 0;
	}
	sentence_clear_refusal(batch, event);
	if (answer->length > 0)
		r = sentence_set_name(batch, event, answer->text, answer->length);
	else
		r = sentence_set_name(batch, event, event->declared->name, strlen(event->declared->name));
	if (r < 0)
		return r;
	place.part.index = answer->index;
	place.part.stream = stream->slot;
	place.part.bit = (uint16_t)answer->bit;
	place_grant(event, place);
	return 0;
}

static void register_take_refusal(struct userev *userev, struct batch *batch, struct userev_event *event,
				  const struct answer *answer)
{
	const char *text = answer->length > 0 ? answer->text : refusal_name(answer->refusal);
	const size_t length = answer->length > 0 ? answer->length : strlen(text);
	struct userev_registration *caller;
	struct sentence *sentence;

	debug_refusal(userev, event ? event->declared->description : "(released)", text, length);
	event_set_refusal(text, length);
	if (!event)
		return;
	caller = userev->declares ? NULL : container_of(batch, struct register_single, batch)->caller;
	if (!caller) {
		sentence_set_refusal(batch, event, text, length);
		place_refuse(userev, event);
		return;
	}
	sentence = sentence_new(event, text, length);
	caller->result = refusal_to_errno(answer->refusal);
	caller->why = sentence ? sentence->text : "refused, and out of memory for the reason";
	if (sentence)
		SLIST_INSERT_HEAD(&userev->sentences, sentence, entry);
	batch_drop(userev, batch);
}

int register_take(struct userev *userev, struct reply *reply, uint16_t count)
{
	struct answers answers;
	struct answer answer;
	int r = 0;

	if (decode_registered(reply->message.body, &answers) != 0 || answers.count != count)
		return -EPROTO;
	while (r == 0 && answers_next(&answers, &answer)) {
		struct batch *batch = userev->unanswered;
		struct userev_event *event = batch->event ? &batch->event[batch->answered] : NULL;
		const bool is_last = ++batch->answered == batch->n;

		if (is_last)
			userev->unanswered = TAILQ_NEXT(batch, entry);
		if (answer.refusal == REFUSAL_NONE)
			r = register_take_grant(userev, batch, event, &answer);
		else
			register_take_refusal(userev, batch, event, &answer);
		if (is_last && !event)
			batch_free(userev, batch);
	}
	debug_print(userev, "%u events answered%s", count, userev->unanswered ? ", others are pending" : "");
	watch_scan_again(userev);
	return r;
}

/* Refuses without asking the daemon. */
static void register_refuse(const struct userev *userev, struct userev_registration *registration, int error,
			    const char *refusal)
{
	debug_refusal(userev, registration->description, refusal, strlen(refusal));
	event_set_refusal(refusal, strlen(refusal));
	registration->result = error;
	registration->why = refusal;
}

static void register_add(struct userev *userev, struct userev_registration *registration)
{
	const size_t length = strlen(registration->description);
	const char *name = registration->description + strspn(registration->description, " \t");
	const size_t name_length = strcspn(name, " \t:;");
	struct register_single *single;

	registration->result = 0;
	registration->why = NULL;
	if (registration->flags & ~(USEREV_PERSIST | USEREV_MULTI_FORMAT)) {
		register_refuse(userev, registration, -EINVAL,
				"unknown flags; there are USEREV_PERSIST and USEREV_MULTI_FORMAT");
		return;
	}
	if (length > WIRE_DESCRIPTION_MAX) {
		register_refuse(userev, registration, -EINVAL,
				"the description is longer than 511 bytes; use fewer fields or shorter names");
		return;
	}
	if (registration->event->place.part.stream != 0) {
		register_refuse(userev, registration, -EBUSY, "this event is registered already; release it first");
		return;
	}
	single = memory_new(sizeof(*single) + length + 1 + name_length + 1);
	if (!single) {
		register_refuse(userev, registration, -ENOMEM, "out of memory");
		return;
	}
	memcpy(single->text, registration->description, length);
	memcpy(single->text + length + 1, name, name_length);
	single->declaration = (struct userev_declaration){
		.name = single->text + length + 1,
		.description = single->text,
		.flags = registration->flags,
	};
	single->caller = registration;
	registration->event->declared = &single->declaration;
	batch_add(userev, &single->batch, registration->event, 1);
}

_public_ int userev_register_all(struct userev *userev, struct userev_registration *registrations, size_t n)
{
	LOCK_LIBRARY;
	int refused = 0;

	event_set_refusal("", 0);
	sentences_free(&userev->sentences);
	for (size_t i = 0; i < n; i++)
		register_add(userev, &registrations[i]);
	session_advance_patiently(userev);
	for (size_t i = 0; i < n; i++) {
		if (registrations[i].result == 0)
			register_single_of(registrations[i].event)->caller = NULL;
		else
			refused++;
	}
	return refused;
}

_public_ int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags)
{
	struct userev_registration registration = { .event = event, .description = description, .flags = flags };
	int r = userev_register_all(userev, &registration, 1);

	return r < 0 ? r : registration.result;
}
