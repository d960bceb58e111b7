/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registering: what is looked at here, and the packets in which the daemon is asked for the rest and answers. */

#include "client/library.h"

void sentences_free(struct sentences *sentences)
{
	struct sentence *sentence;

	while ((sentence = SLIST_FIRST(sentences))) {
		SLIST_REMOVE_HEAD(sentences, entry);
		memory_free(sentence);
	}
}

/* Refuses without having asked anybody. */
static int refuse(struct userev_registration *asked, int error, const char *sentence)
{
	refusal_set(sentence, strlen(sentence));
	asked->result = error;
	asked->why = sentence;
	return error;
}

int registration_check(struct userev_registration *asked)
{
	if (asked->flags & ~(USEREV_PERSIST | USEREV_MULTI_FORMAT))
		return refuse(asked, -EINVAL, "unknown flags; there are USEREV_PERSIST and USEREV_MULTI_FORMAT");
	if (strlen(asked->description) > WIRE_DESCRIPTION_MAX)
		return refuse(asked, -EINVAL,
			      "the description is longer than 511 bytes; use fewer fields or shorter names");
	if (asked->event->grant)
		return refuse(asked, -EBUSY, "this event is registered already; release it first");
	return 0;
}

/* As many as fit, from `unasked` on; which then is the first that did not. */
static struct packet encode_claims(struct userev *userev, uint8_t *buffer, uint16_t *ret_count)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	struct claim *claim = userev->unasked;
	uint16_t count = 0;
	size_t mark;

	encode_begin(&packet, KIND_REGISTER, userev->serial + 1, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	for (; claim && count < userev->limits.batch_max; claim = TAILQ_NEXT(claim, entry)) {
		size_t size = sizeof(struct wire_string) + claim->length + padding(claim->length);

		if (size > packet.capacity - packet.size)
			break;
		encode_string(&packet, claim->flags, claim->description, claim->length);
		count++;
	}
	encode_count(&packet, mark, count);
	encode_end(&packet);
	*ret_count = count;
	return packet;
}

static void note_asked(struct userev *userev, uint16_t count)
{
	userev->serial++;
	request_note(userev, KIND_REGISTERED, count);
	for (; count > 0; count--) {
		userev->unasked->under_way = true;
		userev->unasked = TAILQ_NEXT(userev->unasked, entry);
	}
}

int claims_ask(struct userev *userev, uint8_t *buffer)
{
	uint16_t count;
	struct packet packet = encode_claims(userev, buffer, &count);
	int r = request_send(userev, &packet);

	if (r <= 0)
		return r;
	note_asked(userev, count);
	return count;
}

int claims_take_answers(struct userev *userev, const struct message *message, uint16_t count)
{
	struct answers answers;
	struct answer answer;
	int r = 0;

	if (decode_registered(message->body, &answers) != 0 || answers.count != count)
		return -EPROTO;
	while (r == 0 && answers_next(&answers, &answer)) {
		struct claim *claim = userev->unanswered;

		userev->unanswered = TAILQ_NEXT(claim, entry);
		r = claim_answered(claim, &answer);
	}
	explain(userev, "%u events answered%s", count, userev->unanswered ? ", more to come" : "");
	changes_look_again(userev);
	return r;
}

static void add_claim(struct userev *userev, struct userev_registration *asked)
{
	asked->result = 0;
	asked->why = NULL;
	if (registration_check(asked) == 0 && claim_new(userev, asked) < 0)
		refuse(asked, -ENOMEM, "out of memory");
}

/* Whoever asked is about to leave. Those that are not answered are registered, and wait. */
static int count_refused(struct userev_registration *registrations, size_t n)
{
	int refused = 0;

	for (size_t i = 0; i < n; i++) {
		if (registrations[i].result == 0)
			registrations[i].event->grant->claim->asked = NULL;
		else
			refused++;
	}
	return refused;
}

_public_ int userev_register_all(struct userev *userev, struct userev_registration *registrations, size_t n)
{
	ENTER_LIBRARY;

	refusal_set("", 0);
	sentences_free(&userev->sentences);
	for (size_t i = 0; i < n; i++)
		add_claim(userev, &registrations[i]);
	connection_advance_patiently(userev);
	return count_refused(registrations, n);
}

_public_ int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags)
{
	struct userev_registration registration = { .event = event, .description = description, .flags = flags };
	int r = userev_register_all(userev, &registration, 1);

	return r < 0 ? r : registration.result;
}
