/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registering: what is looked at here, and the packets in which the daemon is asked for the rest. */

#include "client/library/library.h"

struct single *single_of(const struct userev_event *event)
{
	return container_of(event->declared, struct single, declaration);
}

/* Refuses without having asked anybody. */
static int refuse(const struct userev *userev, struct userev_registration *asked, int error, const char *sentence)
{
	explain_refusal(userev, asked->description, sentence, strlen(sentence));
	refusal_set(sentence, strlen(sentence));
	asked->result = error;
	asked->why = sentence;
	return error;
}

static int check(const struct userev *userev, struct userev_registration *asked)
{
	if (asked->flags & ~(USEREV_PERSIST | USEREV_MULTI_FORMAT))
		return refuse(userev, asked, -EINVAL,
			      "unknown flags; there are USEREV_PERSIST and USEREV_MULTI_FORMAT");
	if (strlen(asked->description) > WIRE_DESCRIPTION_MAX)
		return refuse(userev, asked, -EINVAL,
			      "the description is longer than 511 bytes; use fewer fields or shorter names");
	if (asked->event->place.part.stream != 0)
		return refuse(userev, asked, -EBUSY, "this event is registered already; release it first");
	return 0;
}

static bool encode_event(struct packet *packet, const struct userev_declaration *declared)
{
	const size_t length = strlen(declared->description);

	if (sizeof(struct wire_string) + length + padding(length) > packet->capacity - packet->size)
		return false;
	encode_string(packet, (uint16_t)declared->flags, declared->description, length);
	return true;
}

/* As many as fit, from `unasked` on. */
static struct packet encode_events(const struct userev *userev, uint8_t *buffer, uint16_t *ret_count)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	const struct batch *batch = userev->unasked;
	uint32_t at = batch->asked;
	uint16_t count = 0;
	size_t mark;

	encode_begin(&packet, KIND_REGISTER, userev->serial + 1, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	while (batch && count < userev->limits.batch_max && encode_event(&packet, batch->event[at].declared)) {
		count++;
		at++;
		if (at < batch->n)
			continue;
		batch = TAILQ_NEXT(batch, entry);
		at = 0;
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
		userev->unasked->asked++;
		if (userev->unasked->asked == userev->unasked->n)
			userev->unasked = TAILQ_NEXT(userev->unasked, entry);
	}
}

int batches_ask(struct userev *userev, uint8_t *buffer)
{
	uint16_t count;
	struct packet packet = encode_events(userev, buffer, &count);
	int r = request_send(userev, &packet);

	if (r <= 0)
		return r;
	note_asked(userev, count);
	return count;
}

static struct single *single_new(const struct userev_registration *asked)
{
	const char *name = asked->description + strspn(asked->description, " \t");
	const size_t length = strlen(asked->description), name_length = strcspn(name, " \t:;");
	struct single *single = memory_new(sizeof(*single) + length + 1 + name_length + 1);

	if (!single)
		return NULL;
	memcpy(single->text, asked->description, length);
	memcpy(single->text + length + 1, name, name_length);
	single->declaration = (struct userev_declaration){
		.name = single->text + length + 1,
		.description = single->text,
		.flags = asked->flags,
	};
	return single;
}

static int add_single(struct userev *userev, struct userev_registration *asked)
{
	struct single *single = single_new(asked);

	if (!single)
		return refuse(userev, asked, -ENOMEM, "out of memory");
	single->asked = asked;
	asked->event->declared = &single->declaration;
	batch_add(userev, &single->batch, asked->event, 1);
	return 0;
}

static void add(struct userev *userev, struct userev_registration *asked)
{
	asked->result = 0;
	asked->why = NULL;
	if (check(userev, asked) == 0)
		add_single(userev, asked);
}

/* Whoever asked is about to leave. Those that are not answered are registered, and wait. */
static int count_refused(struct userev_registration *registrations, size_t n)
{
	int refused = 0;

	for (size_t i = 0; i < n; i++) {
		if (registrations[i].result == 0)
			single_of(registrations[i].event)->asked = NULL;
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
		add(userev, &registrations[i]);
	connection_advance_patiently(userev);
	return count_refused(registrations, n);
}

_public_ int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags)
{
	struct userev_registration registration = { .event = event, .description = description, .flags = flags };
	int r = userev_register_all(userev, &registration, 1);

	return r < 0 ? r : registration.result;
}
