/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An event that is registered is a claim. Claims stand in one queue and are asked for in batches, from `waiting` on to the
 * end; a new connection begins again at the front. One that the daemon refuses is gone with the call that made it; if that
 * has returned, it keeps its place until the next connection. On the wire a claim on an event exists or not, however often
 * a program registers it: `users` counts who shares it, and the last one gives it back.
 *
 * The daemon is asked for the next batch before it has answered the last, and answers in order.
 *
 * An answer that is late ends the connection, and all that was granted on it is asked for anew. On a machine on which a
 * whole batch always takes longer than we wait that would go on for ever: so the next batches are smaller.
 *
 * Everything is found by following a pointer: event → grant → claim. So n events cost n.
 */

#include "client/library.h"

/* When so few are late it is not for their number. */
enum { BATCH_MIN = 16 };

static void sentence_add(struct userev *userev, struct userev_registration *asked, const char *text, size_t length)
{
	struct sentence *sentence = malloc(sizeof(*sentence) + length + 1);

	asked->why = "refused, and there is no memory to say why";
	if (!sentence)
		return;
	memcpy(sentence->text, text, length);
	sentence->text[length] = '\0';
	SLIST_INSERT_HEAD(&userev->sentences, sentence, entry);
	asked->why = sentence->text;
}

void sentences_free(struct sentences *sentences)
{
	struct sentence *sentence;

	while ((sentence = SLIST_FIRST(sentences))) {
		SLIST_REMOVE_HEAD(sentences, entry);
		free(sentence);
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

static int check_registration(struct userev_registration *asked)
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

static void grant_free_all(struct userev_grant *newest)
{
	while (newest) {
		struct userev_grant *older = newest->older;

		stream_unref(newest->stream);
		free(newest);
		newest = older;
	}
}

/*
 * Others may be testing and writing meanwhile. Off comes first and on comes last; an event that stays where it was on the
 * page is never off in between. Whatever they see of it, they write through one grant or the other.
 */
static void publish(struct userev_event *event, const struct userev_grant *grant, const uint8_t *page, uint32_t bit)
{
	intptr_t status = bit ? (intptr_t)((uintptr_t)(page + bit / 8) - (uintptr_t)event) : 0;
	unsigned char mask = (unsigned char)(1U << bit % 8);

	if (event->status != status || event->mask != mask)
		__atomic_store_n(&event->status, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&event->mask, mask, __ATOMIC_RELEASE);
	__atomic_store_n(&event->grant, grant, __ATOMIC_RELEASE);
	__atomic_store_n(&event->status, status, __ATOMIC_RELEASE);
}

static int claim_new(struct userev *userev, struct userev_registration *asked)
{
	size_t length = strlen(asked->description);
	struct claim *claim = malloc(sizeof(*claim) + length + 1);

	if (!claim)
		return -ENOMEM;
	*claim = (struct claim){
		.userev = userev,
		.event = asked->event,
		.waiting = { .claim = claim },
		.asked = asked,
		.flags = (uint16_t)asked->flags,
		.length = (uint16_t)length,
	};
	memcpy(claim->description, asked->description, length + 1);
	TAILQ_INSERT_TAIL(&userev->claims, claim, entry);
	if (!userev->waiting)
		userev->waiting = claim;
	publish(claim->event, &claim->waiting, NULL, 0);
	return 0;
}

void claim_free(struct claim *claim)
{
	struct userev *userev = claim->userev;

	publish(claim->event, NULL, NULL, 0);
	if (userev->waiting == claim)
		userev->waiting = TAILQ_NEXT(claim, entry);
	TAILQ_REMOVE(&userev->claims, claim, entry);
	grant_free_all(claim->newest);
	free(claim);
}

/* The daemon gives the full name where it is not what the description begins with. */
static struct string_item name_of(const struct claim *claim, const struct answer *answer)
{
	const char *name = claim->description + strspn(claim->description, " \t");

	if (answer->length > 0)
		return (struct string_item){ .text = answer->text, .length = answer->length };
	return (struct string_item){ .text = name, .length = strcspn(name, " \t:;") };
}

static struct userev_grant *grant_new(struct claim *claim, struct stream *stream, const struct answer *answer)
{
	struct string_item name = name_of(claim, answer);
	struct userev_grant *grant = malloc(sizeof(*grant) + name.length + 1);
	char *copy;

	if (!grant)
		return NULL;
	copy = (char *)(grant + 1);
	memcpy(copy, name.text, name.length);
	copy[name.length] = '\0';
	*grant = (struct userev_grant){
		.claim = claim,
		.stream = stream_ref(stream),
		.index = answer->index,
		.name = copy,
		.older = claim->newest,
	};
	return grant;
}

static int claim_granted(struct claim *claim, const struct answer *answer)
{
	struct userev *userev = claim->userev;
	struct stream *stream = streams_find(&userev->streams, answer->stream);
	struct userev_grant *grant;

	if (!stream || answer->bit == 0 || answer->bit >= userev->limits.page_bits)
		return -EPROTO;
	grant = grant_new(claim, stream, answer);
	if (!grant)
		return -ENOMEM;
	claim->newest = grant;
	claim->bit = answer->bit;
	userev->users[claim->bit]++;
	publish(claim->event, grant, userev->page, claim->bit);
	return 0;
}

static void claim_refused(struct claim *claim, const struct answer *answer)
{
	const char *name = refusal_name(answer->refusal);
	const char *text = answer->length > 0 ? answer->text : name;
	size_t length = answer->length > 0 ? answer->length : strlen(name);

	refusal_set(text, length);
	if (!claim->asked) {
		publish(claim->event, &claim->waiting, NULL, 0);
		return;
	}
	claim->asked->result = refusal_to_errno(answer->refusal);
	sentence_add(claim->userev, claim->asked, text, length);
	claim_free(claim);
}

/* A packet that was sent, or is to be. */
struct request {
	uint32_t serial;
	uint16_t count;	    /* 0: there is none */
	struct claim *next; /* the first that is not in it */
};

/* As many as fit, from `claim` on. */
static struct packet encode_claims(struct userev *userev, struct claim *claim, uint8_t *buffer, struct request *ret)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	const uint32_t most = MIN(userev->limits.batch_max, (uint32_t)userev->batch_max);
	size_t mark;

	*ret = (struct request){ .serial = ++userev->serial };
	encode_begin(&packet, KIND_REGISTER, ret->serial, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	for (; claim && ret->count < most; claim = TAILQ_NEXT(claim, entry)) {
		size_t size = sizeof(struct wire_string) + claim->length + padding(claim->length);

		if (size > packet.capacity - packet.size)
			break;
		encode_string(&packet, claim->flags, claim->description, claim->length);
		ret->count++;
	}
	encode_count(&packet, mark, ret->count);
	encode_end(&packet);
	ret->next = claim;
	return packet;
}

static int send_claims(struct userev *userev, uint8_t *buffer, struct request *ret)
{
	struct packet packet = encode_claims(userev, userev->waiting, buffer, ret);

	return connection_send(userev, &packet);
}

/* What comes behind it, so that the daemon need not wait for us. Where there is no room, that is sent in its turn. */
static struct request send_ahead(struct userev *userev, uint8_t *buffer, const struct request *under_way)
{
	struct request request = { 0 };
	struct packet packet;

	if (!under_way->next)
		return request;
	packet = encode_claims(userev, under_way->next, buffer, &request);
	if (!connection_send_at_once(userev, &packet))
		request.count = 0;
	return request;
}

static int take_answers(struct userev *userev, uint8_t *buffer, const struct request *request)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	struct answers answers;
	struct answer answer;
	int r;

	r = connection_receive(userev, KIND_REGISTERED, request->serial, buffer, WIRE_PACKET_MAX, &reply);
	if (r == -ETIMEDOUT && request->count > BATCH_MIN)
		userev->batch_max = MAX(request->count / 2, BATCH_MIN);
	if (r < 0)
		return r;
	if (decode_registered(reply.message.body, &answers) != 0 || answers.count != request->count)
		return -EPROTO;
	while (answers_next(&answers, &answer)) {
		struct claim *claim = userev->waiting;

		userev->waiting = TAILQ_NEXT(claim, entry);
		if (answer.refusal != REFUSAL_NONE)
			claim_refused(claim, &answer);
		else
			r = claim_granted(claim, &answer);
		if (r < 0)
			return r;
	}
	return 0;
}

static int ask_for_all(struct userev *userev, uint8_t *buffer)
{
	struct request request = { 0 };
	int r = 0;

	while (r == 0 && userev->waiting) {
		struct request ahead;

		if (request.count == 0)
			r = send_claims(userev, buffer, &request);
		if (r < 0)
			break;
		ahead = send_ahead(userev, buffer, &request);
		r = take_answers(userev, buffer, &request);
		request = ahead;
	}
	return r;
}

int claims_ask(struct userev *userev, uint8_t *buffer)
{
	int r = ask_for_all(userev, buffer);

	if (r < 0) {
		connection_drop(userev);
		return r;
	}
	streams_retire(&userev->outdated);
	losses_report(userev);
	return 0;
}

static void add_claim(struct userev *userev, struct userev_registration *asked)
{
	asked->result = 0;
	asked->why = NULL;
	if (check_registration(asked) == 0 && claim_new(userev, asked) < 0)
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
	_cleanup_(freep) uint8_t *buffer = malloc(WIRE_PACKET_MAX);

	refusal_set("", 0);
	if (!buffer)
		return -ENOMEM;
	sentences_free(&userev->sentences);
	for (size_t i = 0; i < n; i++)
		add_claim(userev, &registrations[i]);
	if (connection_open(userev) == 0)
		claims_ask(userev, buffer);
	return count_refused(registrations, n);
}

_public_ int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags)
{
	struct userev_registration registration = { .event = event, .description = description, .flags = flags };
	int r = userev_register_all(userev, &registration, 1);

	return r < 0 ? r : registration.result;
}
