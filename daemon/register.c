/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A batch of events is decided event by event, asked of the kernel in one batch, and answered in one packet. Until the
 * kernel has answered, all that was charged hangs off the registration: each item owns a reference to its grant. What the
 * kernel granted becomes a reference of the stream and a lease of the client, before the answer leaves; whatever else there
 * is goes with the item's reference. A client that leaves meanwhile changes nothing in that but for the leases.
 */

#include "daemon/register.h"

#include <stdio.h>

#include "daemon/daemon.h"
#include "daemon/event.h"
#include "daemon/lease.h"
#include "daemon/tenant.h"
#include "protocol/description.h"

struct item {
	struct grant *grant; /* what this item asks for, if it was not refused */
	uint32_t refusal;
	char *sentence; /* of a refusal; NULL where memory was short */
	size_t call;	/* which one is this item's, of the registration's calls */
	char name[64];	/* as asked for, cut: for the log */
};

struct registration {
	struct errand errand;
	struct daemon *daemon;
	struct tenant *tenant; /* held by the items' grants, if by nobody else */
	struct stream *stream; /* the client's, kept while we need it; or the new one, once it is there */
	uint32_t new_stream;   /* its number, where the first call makes one; else 0 */
	uint32_t serial;
	size_t n_items;
	struct item *items;
	size_t n_calls;
	struct kernel_call *calls; /* one for the stream, and at most one for each item */
};

static struct registration *registration_free(struct registration *registration)
{
	if (!registration)
		return NULL;
	for (size_t i = 0; i < registration->n_items; i++) {
		grant_unref(registration->items[i].grant);
		free(registration->items[i].sentence);
	}
	free(registration->items);
	free(registration->calls);
	free(registration);
	return NULL;
}

static struct registration *registration_new(struct client *client, uint32_t serial, size_t n)
{
	struct registration *registration = calloc(1, sizeof(*registration));

	if (!registration)
		return NULL;
	registration->daemon = client->daemon;
	registration->tenant = client->tenant;
	registration->serial = serial;
	registration->items = calloc(MAX(n, 1), sizeof(*registration->items));
	registration->calls = calloc(n + 1, sizeof(*registration->calls));
	if (!registration->items || !registration->calls)
		return registration_free(registration);
	registration->n_items = n;
	registration->stream = client->stream;
	if (client->stream)
		client->stream->clients++;
	return registration;
}

static void refuse(struct item *item, uint32_t refusal, const char *sentence)
{
	item->refusal = refusal;
	item->sentence = strdup(sentence);
	item->grant = grant_unref(item->grant);
}

static void refuse_for_errno(struct item *item, int error)
{
	char sentence[WIRE_SENTENCE_MAX];

	snprintf(sentence, sizeof(sentence), "trouble in the daemon or the kernel (%s); try again later",
		 strerror(-error));
	refuse(item, REFUSAL_TROUBLE, sentence);
}

/* The kernel's answers, as clients are told. One place for all backends. */
static void refuse_for_kernel(struct item *item, int answer)
{
	static const struct {
		uint32_t refusal;
		const char *sentence;
	} answers[] = {
		[KERNEL_E_NAME_TAKEN] = { REFUSAL_NAME_TAKEN,
					  "the name is taken by an event with other fields; choose another name" },
		[KERNEL_E_PAGE_FULL] = { REFUSAL_PAGE_FULL,
					 "the tenant's status page has no bit left; release some events" },
		[KERNEL_E_FULL] = { REFUSAL_MACHINE_FULL,
				    "the kernel takes no more events; ask its admin for more room" },
		[KERNEL_E_UNSUPPORTED] = { REFUSAL_KERNEL_TOO_OLD, "this kernel can't do what the flags ask for" },
		[KERNEL_E_BAD_DESCRIPTION] = { REFUSAL_BAD_DESCRIPTION, "the kernel does not take this description" },
	};

	if (answer < 0)
		refuse_for_errno(item, answer);
	else if ((size_t)answer < ARRAY_SIZE(answers) && answers[answer].sentence)
		refuse(item, answers[answer].refusal, answers[answer].sentence);
	else
		refuse_for_errno(item, -EIO);
}

/* What can be said without the kernel. 0, or a positive refusal with its sentence, or a negative errno. */
static int decide(struct client *client, const struct string_item *asked, struct grant **ret, struct text *why)
{
	static struct description description; /* large, and used up before the next one comes */
	const uint16_t known = REGISTER_PERSIST | REGISTER_MULTI_FORMAT;
	int r;

	if (asked->flags & ~known) {
		text_printf(why, "unknown flags %#x; a newer daemon may know them", asked->flags & ~known);
		return REFUSAL_KERNEL_TOO_OLD;
	}
	if (asked->flags & ~client->daemon->kernel->facts.flags) {
		text_printf(why, "the %s backend has no %s events; register it without that flag",
			    client->daemon->kernel->facts.name,
			    asked->flags & REGISTER_PERSIST ? "persistent" : "multi-format");
		return REFUSAL_KERNEL_TOO_OLD;
	}
	r = description_parse(asked->text, asked->length, &description, why);
	if (r != 0)
		return r;
	return grant_get(client->tenant, &description, ret, why);
}

/* A client's first event has its stream made. */
static bool needs_stream(const struct registration *registration)
{
	return !registration->stream && !registration->new_stream;
}

static void add_stream_call(struct registration *registration, const struct tenant *tenant)
{
	registration->new_stream = stream_next_number(registration->daemon);
	registration->calls[registration->n_calls++] = (struct kernel_call){
		.op = KERNEL_STREAM_NEW,
		.page = tenant->number,
		.stream = registration->new_stream,
		.fd = -1,
	};
}

static void add_call(struct registration *registration, struct item *item, const struct string_item *asked)
{
	if (needs_stream(registration))
		add_stream_call(registration, item->grant->tenant);
	item->call = registration->n_calls;
	registration->calls[registration->n_calls++] = (struct kernel_call){
		.op = KERNEL_REGISTER,
		.page = item->grant->tenant->number,
		.stream = registration->stream ? registration->stream->number : registration->new_stream,
		.flags = asked->flags,
		.text = item->grant->event->description,
		.fd = -1,
	};
}

static void decide_item(struct client *client, struct registration *registration, struct item *item,
			const struct string_item *asked)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence)), name = text_make(item->name, sizeof(item->name));
	size_t name_length = 0;
	int r;

	while (name_length < asked->length && !strchr(" \t:", asked->text[name_length]))
		name_length++;
	text_put(&name, asked->text, name_length);

	r = decide(client, asked, &item->grant, &why);
	if (r == 0 && needs_stream(registration) && !daemon_has_fds(client->daemon))
		refuse_for_errno(item, -EMFILE);
	else if (r == 0)
		add_call(registration, item, asked);
	else if (r > 0)
		refuse(item, (uint32_t)r, sentence);
	else
		refuse_for_errno(item, r);
}

/* The kernel made our stream, or did not: then nothing on it was registered either. */
static int adopt_stream(struct registration *registration, struct client *client)
{
	struct kernel_call *call = &registration->calls[0];

	if (!registration->new_stream)
		return 0;
	if (call->result != KERNEL_OK)
		return call->result < 0 ? call->result : -EIO;
	registration->stream = stream_new(registration->tenant, registration->new_stream);
	if (!registration->stream) {
		call->fd = fd_close(call->fd);
		kernel_tell(registration->daemon->kernel,
			    (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = registration->new_stream });
		return -ENOMEM;
	}
	if (client)
		client->stream = registration->stream;
	return 0;
}

static void grant_item(struct registration *registration, struct client *client, struct item *item)
{
	const struct kernel_call *call = &registration->calls[item->call];
	struct reference *reference;

	if (item->refusal != REFUSAL_NONE)
		return;
	if (call->result != KERNEL_OK) {
		refuse_for_kernel(item, call->result);
		return;
	}
	item->grant->bit = call->bit;
	reference = reference_get(registration->stream, item->grant, call->index);
	if (!reference) {
		/* It stays registered on the stream, known to nobody, until that ends. */
		refuse_for_errno(item, -ENOMEM);
		return;
	}
	if (client && !lease_get(client, reference))
		refuse_for_errno(item, -ENOMEM);
	if (LIST_EMPTY(&reference->leases))
		references_release(&reference, 1);
}

static void encode_item(struct packet *packet, const struct registration *registration, const struct item *item)
{
	struct answer answer = { .refusal = item->refusal };

	if (item->refusal == REFUSAL_NONE) {
		answer.bit = item->grant->bit;
		answer.stream = registration->stream->number;
		answer.index = registration->calls[item->call].index;
	} else if (item->sentence) {
		answer.text = item->sentence;
		answer.length = strlen(item->sentence);
	}
	encode_answer(packet, &answer);
}

static void answer(struct registration *registration, struct client *client)
{
	uint32_t refused = 0;
	struct packet *packet = client_answer(client, KIND_REGISTERED, registration->serial, 0);
	bool new_stream = registration->new_stream && registration->stream;
	size_t mark;

	if (new_stream)
		encode_begin(packet, KIND_REGISTERED, registration->serial, 0, &registration->new_stream, 1);
	mark = encode_answers(packet);
	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		encode_item(packet, registration, item);
		if (item->refusal != REFUSAL_NONE && ++refused)
			daemon_refused(client->daemon, client->tenant, item->name, item->refusal,
				       item->sentence ? item->sentence : "out of memory");
	}
	encode_count(packet, mark, (uint16_t)registration->n_items);
	client_send(client, &registration->calls[0].fd, new_stream);
}

/* Lets go of the stream; a new one that nobody got ends here. */
static void leave_stream(struct registration *registration, struct client *client)
{
	if (!registration->stream)
		return;
	if (!registration->new_stream)
		stream_client_ends(registration->stream);
	else if (!client)
		stream_free(registration->stream);
	/* Our copy of the client's end: what keeps a stream open is the client alone. */
	if (registration->new_stream)
		fd_close(registration->calls[0].fd);
}

static void on_registered(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct registration *registration = data;
	struct client *client = errand_end(&registration->errand);
	int r = adopt_stream(registration, client);

	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		if (r < 0 && item->refusal == REFUSAL_NONE)
			refuse_for_errno(item, r);
		else if (r == 0)
			grant_item(registration, client, item);
	}
	if (client)
		answer(registration, client);
	leave_stream(registration, client);
	registration_free(registration);
}

int handle_register(struct client *client, const struct message *message)
{
	struct registration *registration;
	struct string_item asked;
	struct strings strings;
	int r;

	r = decode_strings(message->body, &strings);
	if (r != 0 || strings.flags != 0)
		return REFUSAL_BAD_PACKET;
	registration = registration_new(client, message->serial, strings.count);
	if (!registration) {
		client_cut(client, message->serial, REFUSAL_TROUBLE, "the daemon is out of memory; try again later");
		return 0;
	}
	for (size_t i = 0; strings_next(&strings, &asked); i++)
		decide_item(client, registration, &registration->items[i], &asked);
	errand_begin(&registration->errand, client);
	kernel_submit(client->daemon->kernel, registration->calls, registration->n_calls, on_registered, registration);
	return 0;
}
