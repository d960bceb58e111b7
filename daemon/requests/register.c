/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A batch of events is decided event by event. An event that is already registered on a stream that the client has, or may
 * have, is leased at once. The kernel is asked for the others, and begins with the first while the last are decided. Until
 * the kernel has answered, each item of the registration owns a reference to its grant, and so its charge. When the kernel
 * has granted it, it becomes a reference of the stream and a lease of the client, before the answer is sent. Anything else is
 * released with the item. If the client leaves meanwhile, only the leases are not made.
 *
 * The workers of a service start alike. An event that one of them has registered is admitted again without a look at its fields, if
 * it is described in the same words. And if a whole request is the same as one before, there is a precedent.
 */

#include <stdio.h>

#include "daemon/connection/scheduler.h"
#include "daemon/ledger/ledger.h"
#include "daemon/process/memory.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/registered.h"
#include "daemon/requests/requests.h"
#include "protocol/event/description.h"

/* Items that are decided in one turn: a hundred microseconds' worth, and half of the calls that fit into one packet to the keeper. */
enum { PART = 50 };

/* With its call and, at worst, a sentence. */
enum { ITEM_BYTES = sizeof(struct item) + sizeof(struct kernel_call) + WIRE_SENTENCE_MAX };

/* Calls that are submitted together. */
struct batch {
	struct registration *registration;
	size_t n;
	struct item *items[PART + 1]; /* that the calls are for; NULL: the stream itself */
	struct kernel_call calls[];
};

static void registration_free(struct registration *registration)
{
	registration->tenant->waiting -= registration->bytes;
	memory_freed(&registration->registry->memory, registration->bytes);
	for (size_t i = 0; i < registration->n_items; i++) {
		grant_unref(registration->items[i].grant);
		free(registration->items[i].sentence);
	}
	if (registration->stream)
		stream_unuse(registration->stream);
	free(registration);
}

static struct registration *registration_new(struct client *client, const struct message *message,
					     const struct strings *strings)
{
	struct cursor body = message->body;
	const size_t head = body.left - strings->items.left;
	/* A long request is decided in several turns, and its packet is in a buffer that all clients share. */
	size_t copied = strings->count > PART ? body.left : 0;
	struct registration *registration =
		malloc(sizeof(*registration) + strings->count * sizeof(struct item) + copied);
	uint8_t *copy;

	if (!registration)
		return NULL;
	copy = (uint8_t *)&registration->items[strings->count];
	*registration = (struct registration){
		.connections = client->connections,
		.registry = client->holder.registry,
		.tenant = client->holder.tenant,
		.serial = message->serial,
		.bytes = sizeof(*registration) + (strings->count + 1) * ITEM_BYTES + body.left,
		.request = body,
		.undecided = *strings,
	};
	registration->tenant->waiting += registration->bytes;
	memory_taken(&registration->registry->memory, registration->bytes);
	if (copied > 0) {
		memcpy(copy, body.at, copied);
		registration->request = cursor_make(copy, copied);
		registration->undecided.items = cursor_make(copy + head, copied - head);
	}
	return registration;
}

static struct batch *batch_new(struct registration *registration, size_t items)
{
	struct batch *batch = malloc(sizeof(*batch) + (items + 1) * sizeof(batch->calls[0]));

	if (!batch)
		return NULL;
	batch->registration = registration;
	batch->n = 0;
	return batch;
}

static void batch_add(struct batch *batch, struct item *item, struct kernel_call call)
{
	batch->items[batch->n] = item;
	batch->calls[batch->n++] = call;
}

/* As requested, or as registered, and truncated: for the log. */
static void item_put_name(const struct registration *registration, const struct item *item, struct text *name)
{
	const struct event *event = item->grant ? item->grant->event : NULL;
	struct string_item asked = registration->asked;
	size_t length = 0;

	if (event)
		asked = (struct string_item){ .text = event->description, .length = event->name_length };
	while (length < asked.length && !strchr(" \t:", asked.text[length]))
		length++;
	text_put(name, asked.text, length);
}

void item_refuse(struct registration *registration, struct item *item, uint32_t refusal, const char *sentence)
{
	char buffer[64];
	struct text name = text_make(buffer, sizeof(buffer));

	item_put_name(registration, item, &name);
	if (registration->task.client)
		refusal_note(registration->registry, registration->tenant, buffer, refusal, sentence);
	item->refusal = refusal;
	item->sentence = strdup(sentence);
	item->grant = grant_unref(item->grant);
}

/* `r`: a positive refusal with its sentence, or a negative errno. */
static void item_refuse_for(struct registration *registration, struct item *item, int r, const char *sentence)
{
	char trouble[WIRE_SENTENCE_MAX];

	if (r > 0) {
		item_refuse(registration, item, (uint32_t)r, sentence);
		return;
	}
	snprintf(trouble, sizeof(trouble), "trouble in the daemon or the kernel (%s); try again later", strerror(-r));
	item_refuse(registration, item, REFUSAL_TROUBLE, trouble);
}

void item_refuse_unguarded(struct registration *registration, struct item *item)
{
	bool is_suspect = streams_are_suspect(registration->tenant);

	if (is_suspect)
		capacity_look(registration->registry);
	item_refuse(
		registration, item, REFUSAL_TROUBLE,
		is_suspect
			? "the kernel has events that no client registered, and this tenant has an unguarded data file that was "
			  "kept open after hanging up: no new one until it is closed"
			: "data files have lost their guard, and are not given out without; tell the admin");
}

/* --- deciding --- */

/* Decides without the kernel, and charges. 0, or a positive refusal with its sentence, or a negative errno. */
static int item_decide(struct client *client, const struct string_item *asked, struct item *item, struct text *why)
{
	static struct description description; /* large */
	const struct kernel_facts *facts = &client->holder.registry->kernel->facts;
	const uint16_t unknown = asked->flags & ~(REGISTER_PERSIST | REGISTER_MULTI_FORMAT);
	struct tenant *tenant = client->holder.tenant;
	const struct event_key key = event_look_up(tenant->registry, asked->text, asked->length);
	struct policy_verdict verdict;
	int r;

	/* A prefix makes another name of it. */
	if (asked->flags == 0 && !tenant->rules.values.value[POLICY_NAME_PREFIX]->text)
		item->grant = grant_admitted(tenant, key, asked->text, asked->length);
	if (item->grant)
		return 0;
	if (unknown) {
		text_printf(why, "unknown flags %#x; a newer daemon may know them", unknown);
		return REFUSAL_KERNEL_TOO_OLD;
	}
	if (asked->flags & ~facts->flags) {
		text_printf(why, "the %s backend has no %s events; register it without that flag",
			    backend_name(facts->backend),
			    asked->flags & REGISTER_PERSIST ? "persistent" : "multi-format");
		return REFUSAL_KERNEL_TOO_OLD;
	}
	r = policy_admit(&tenant->rules.values, asked->text, asked->length, asked->flags, &description, &verdict, why);
	return r != 0 ? r : grant_ask(tenant, &description, key, &item->flags, &item->grant, why);
}

/* Where clients share streams, an event is on few of them. */
static struct reference *register_find_shared(struct holder *holder, const struct grant *grant)
{
	struct reference *reference;

	LIST_FOREACH(reference, &grant->registered, in_grant)
		if (!reference->release && share_find(holder, reference->stream))
			return reference;
	LIST_FOREACH(reference, &grant->registered, in_grant)
		if (!reference->release && stream_may_serve(reference->stream, holder))
			/* One more file has to fit into the answer, and there may be a new stream, too. */
			return shares_count_unsent(holder) < WIRE_FDS_MAX - 1 ? reference : NULL;
	return NULL;
}

/* Where they don't, a client has few streams. */
static struct reference *register_find_own(const struct holder *holder, const struct grant *grant)
{
	struct reference *reference = NULL;
	const struct share *share;

	LIST_FOREACH(share, &holder->shares, in_client) {
		reference = reference_find(share->stream, grant);
		if (reference)
			break;
	}
	return reference;
}

/* The client may have it already, on another stream. */
static void item_lease(struct registration *registration, struct holder *holder, struct item *item,
		       struct reference *reference)
{
	const struct reference *leased = lease_get(holder, reference);

	if (!leased) {
		item_refuse_for(registration, item, -ENOMEM, "");
		return;
	}
	item->stream = leased->stream;
	item->index = leased->index;
}

/* Already on a stream that the client has, or may have. NULL: the kernel has to be asked. */
static struct reference *register_find_reference(struct holder *holder, const struct item *item)
{
	const struct grant *grant = item->grant;
	struct reference *leased = lease_by_bit(holder, grant->bit);

	/* For a persistent event the kernel is asked each time. */
	if (LIST_EMPTY(&grant->registered) || item->flags & REGISTER_PERSIST)
		return NULL;
	if (leased && !leased->release)
		return leased;
	return rules_share_streams(holder->tenant) ? register_find_shared(holder, grant)
						   : register_find_own(holder, grant);
}

/* The stream on which to register: one that serves the client, or a new one. 0, a refusal, or a negative errno. */
static int register_take_stream(struct client *client, struct batch *batch, struct stream *next, struct text *why)
{
	struct registration *registration = batch->registration;
	struct kernel_call call;
	int r;

	if (registration->stream)
		return 0;
	if (next) {
		registration->stream = stream_use(next);
		stream_probe(next);
		return 0;
	}
	if (!fd_budget_has_room(registration->registry))
		return -EMFILE;
	r = stream_new(client->holder.tenant, client->holder.uid, &call, &registration->stream, why);
	if (r == 0)
		batch_add(batch, NULL, call);
	return r;
}

static void register_add_call(struct batch *batch, struct item *item)
{
	struct stream *stream = batch->registration->stream;

	reference_enter_asked(stream, item->grant, &item->asked);
	/* Room for the lease, until the call is answered. */
	quota_hold(&stream->tenant->level->own_leases);
	batch_add(batch, item,
		  (struct kernel_call){
			  .op = KERNEL_REGISTER,
			  .page = stream->tenant->number,
			  .stream = stream->number,
			  .flags = item->flags,
			  .text = item->grant->event->description,
			  .fd = -1,
		  });
}

/* The stream that was chosen for all items. It may have ended before the first of them is registered on it. */
static struct stream *register_next_stream(const struct registration *registration)
{
	struct stream *next = registration->stream;

	if (!next)
		next = stream_by_number(registration->registry, registration->next);
	return next && !next->closed ? next : NULL;
}

/* Asks the kernel for the item. */
static void item_ask(struct client *client, struct batch *batch, struct item *item)
{
	struct registration *registration = batch->registration;
	struct tenant *tenant = client->holder.tenant;
	struct stream *next = register_next_stream(registration);
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	/* Where there never was a guard the file would not leave. */
	if (!next && !tenant->registry->kernel->facts.guarded && streams_are_suspect(tenant)) {
		item_refuse_unguarded(registration, item);
		return;
	}
	r = admission_ask_lease(tenant, &why);
	if (r == 0)
		r = register_take_stream(client, batch, next, &why);
	if (r != 0)
		item_refuse_for(registration, item, r, sentence);
	else
		register_add_call(batch, item);
}

/* Leases the item at once, or asks the kernel for it. */
static void item_place(struct client *client, struct batch *batch, struct item *item)
{
	struct registration *registration = batch->registration;
	struct reference *reference = register_find_reference(&client->holder, item);
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r = 0;

	if (!reference) {
		item_ask(client, batch, item);
		return;
	}
	if (reference->leases > 0 && !lease_by_bit(&client->holder, (uint32_t)reference->bit))
		r = admission_ask_lease(client->holder.tenant, &why);
	if (r == 0)
		item_lease(registration, &client->holder, item, reference);
	else
		item_refuse_for(registration, item, r, sentence);
}

static void register_decide_item(struct client *client, struct batch *batch, const struct string_item *asked)
{
	struct registration *registration = batch->registration;
	struct item *item = &registration->items[registration->n_items++];
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	*item = (struct item){ .flags = asked->flags };
	registration->asked = *asked;
	r = item_decide(client, asked, item, &why);
	if (r == 0)
		item_place(client, batch, item);
	else
		item_refuse_for(registration, item, r, sentence);
}

/* Once for a part of the items. */
static void register_warn(struct tenant *tenant)
{
	admission_warn(tenant, RESOURCE_EVENTS);
	admission_warn(tenant, RESOURCE_LEASES);
	capacity_note(tenant->registry, false);
}

/* --- the kernel's answers --- */

static void register_finish(struct registration *registration);

static void register_end_part(struct registration *registration)
{
	if (--registration->under_way == 0)
		register_finish(registration);
}

static void item_ask_again(struct registration *registration, struct item *item)
{
	item->again = true;
	registration->n_again++;
}

/* The name is taken by an event of which the daemon knows nothing: the item becomes one of many formats. False: it may not. */
static bool item_ask_as_one_of_many(struct registration *registration, struct item *item)
{
	static struct description description; /* large */
	struct client *client = registration->task.client;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	const char *text = item->grant->event->description;
	int r;

	if (!client || item->flags & REGISTER_MULTI_FORMAT || !grant_may_be_one_of_many(client->holder.tenant) ||
	    description_parse(text, strlen(text), &description, &why) != 0)
		return false;
	item->grant = grant_unref(item->grant);
	item->flags |= REGISTER_MULTI_FORMAT;
	r = grant_get(client->holder.tenant, &description, item->flags, 0, &item->grant, &why);
	if (r == 0)
		item_ask_again(registration, item);
	else
		item_refuse_for(registration, item, r, sentence);
	return true;
}

static void item_grant(struct registration *registration, struct item *item, const struct kernel_call *call)
{
	struct client *client = registration->task.client;
	struct reference *reference;

	registration->has_self_registered |= call->number;
	item->grant->bit = call->bit;
	reference = reference_get(registration->stream, item->grant, call->index, &item->asked);
	if (!reference) {
		/* It stays registered until the stream ends. */
		item_refuse_for(registration, item, -ENOMEM, "");
		return;
	}
	if (item->flags & REGISTER_PERSIST)
		grant_persists(item->grant);
	if (client)
		item_lease(registration, &client->holder, item, reference);
	if (reference->leases == 0)
		references_release(&reference, 1);
}

static void item_settle(struct registration *registration, struct item *item, const struct kernel_call *call)
{
	const struct stream *stream = registration->stream;
	uint32_t refusal = REFUSAL_TROUBLE;
	const char *sentence;

	/* The reference and the lease are charged by themselves. */
	quota_release(&stream->tenant->level->own_leases);
	if (!stream->failed && call->result == KERNEL_OK) {
		item_grant(registration, item, call);
		ledger_strike(registration->registry->ledger, &item->asked);
		return;
	}
	ledger_strike(registration->registry->ledger, &item->asked);
	if (stream->failed == STREAM_E_UNGUARDED) {
		item_refuse_unguarded(registration, item);
		return;
	}
	if (stream->failed) {
		item_refuse_for(registration, item, stream->failed, "");
		return;
	}
	if (call->result == KERNEL_E_SETTLING && settling_goes_on(&registration->deadline)) {
		registration->settles = true;
		item_ask_again(registration, item);
		return;
	}
	if ((call->result == KERNEL_E_NAME_TAKEN || call->result == KERNEL_E_SETTLING) &&
	    item_ask_as_one_of_many(registration, item))
		return;
	if (call->result == KERNEL_E_FULL)
		capacity_note(registration->registry, true);
	sentence = refusal_for_kernel(call->result, &refusal);
	if (sentence)
		item_refuse(registration, item, refusal, sentence);
	else
		item_refuse_for(registration, item, call->result < 0 ? call->result : -EIO, "");
}

static void register_on_answer(void *data, struct kernel_call *calls, size_t n)
{
	_cleanup_(freep) struct batch *batch = data;
	struct registration *registration = batch->registration;

	scheduler_answered(registration->connections, registration->stream->tenant, n);
	for (size_t i = 0; i < n; i++)
		if (batch->items[i])
			item_settle(registration, batch->items[i], &calls[i]);
		else
			stream_made(registration->stream, &calls[i]);
	register_end_part(registration);
}

/* The registration may be at an end when this returns, unless items are still decided. */
static void batch_submit(struct batch *batch)
{
	struct registration *registration = batch->registration;

	if (batch->n == 0) {
		free(batch);
		return;
	}
	registration->under_way++;
	scheduler_submitted(registration->stream->tenant, batch->n);
	kernel_submit(registration->registry->kernel, batch->calls, batch->n, register_on_answer, batch);
}

static void register_run_out_of_memory(struct client *client, uint32_t serial)
{
	client_disconnect(client, serial, REFUSAL_TROUBLE, "the daemon is out of memory; try again later");
}

/* A part of the items that the kernel is to be asked for again. */
static void register_ask_again(struct registration *registration)
{
	struct client *client = registration->task.client;
	struct batch *batch = client ? batch_new(registration, MIN(registration->n_again, (size_t)PART)) : NULL;

	registration->under_way++;
	if (client && !batch) {
		register_run_out_of_memory(client, registration->serial);
		registration->n_again = 0;
	}
	for (struct item *item = registration->items;
	     batch && item < registration->items + registration->n_items && batch->n < PART; item++) {
		if (!item->again)
			continue;
		item->again = false;
		registration->n_again--;
		item_place(client, batch, item);
	}
	if (batch) {
		register_warn(registration->tenant);
		batch_submit(batch);
	}
	register_end_part(registration);
}

static void register_on_settled(struct settling *settling)
{
	register_ask_again(container_of(settling, struct registration, settling));
}

/* All is decided, and all calls are answered. */
static void register_finish(struct registration *registration)
{
	struct client *client = registration->task.client;

	if (client && registration->n_again > 0) {
		bool settles = registration->settles;

		registration->settles = false;
		if (settles)
			settling_wait(registration->registry, &registration->settling, register_on_settled);
		else
			register_ask_again(registration);
		return;
	}
	task_end(&registration->task);
	if (client && client->life == LIFE_OPEN) {
		registered_answer(registration, client);
		shares_tidy(&client->holder);
	}
	/* After the answer is sent, and all is charged. */
	if (registration->has_self_registered)
		stream_note_self_registered(registration->stream);
	if (registration->stream)
		stream_replaces(registration->stream);
	registration_free(registration);
}

/* --- the request --- */

static void register_on_turn(struct client_task *);

/* Ends the items that are decided, and does not begin the others. */
static void register_abandon(struct client_task *task)
{
	register_end_part(container_of(task, struct registration, task));
}

/* The next part of the items. */
static void register_decide(struct registration *registration)
{
	struct client *client = registration->task.client;
	struct strings *undecided = &registration->undecided;
	struct batch *batch = batch_new(registration, MIN(undecided->count, PART));
	struct string_item asked;

	if (!batch) {
		register_run_out_of_memory(client, registration->serial);
		register_end_part(registration);
		return;
	}
	for (unsigned i = 0; i < PART && strings_next(undecided, &asked); i++)
		register_decide_item(client, batch, &asked);
	register_warn(registration->tenant);
	/* Not later: others may build on its stream at once. */
	batch_submit(batch);
	if (undecided->count > 0)
		task_put_off(&registration->task, register_on_turn, register_abandon);
	else
		register_end_part(registration);
}

static void register_on_turn(struct client_task *task)
{
	register_decide(container_of(task, struct registration, task));
}

int handle_register(struct client *client, const struct message *message)
{
	struct registration *registration;
	struct strings strings;
	const struct stream *next;

	if (registered_answer_alike(client, message))
		return 0;
	if (decode_strings(message->body, &strings) != 0 || strings.flags != 0)
		return REFUSAL_BAD_PACKET;
	registration = registration_new(client, message, &strings);
	if (!registration) {
		register_run_out_of_memory(client, message->serial);
		return 0;
	}
	/* A stream that is shared is proved with this, once for all items. */
	next = stream_for(&client->holder);
	registration->next = next ? next->number : 0;
	registration->under_way = 1;
	task_begin(&registration->task, client);
	register_decide(registration);
	return 0;
}
