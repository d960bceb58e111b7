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

#include "daemon/connection/scheduler.h"
#include "daemon/process/memory.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/kept.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/registered.h"
#include "daemon/requests/requests.h"

/* With its call and, at worst, a sentence. */
enum { ITEM_BYTES = sizeof(struct item) + sizeof(struct kernel_call) + WIRE_SENTENCE_MAX };

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
		.generation = client->holder.registry->generation,
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

static void register_decide_item(struct client *client, struct batch *batch, const struct string_item *asked)
{
	struct registration *registration = batch->registration;
	struct item *item = &registration->items[registration->n_items++];
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	int r;

	*item = (struct item){ .flags = asked->flags };
	registration->asked = *asked;
	r = item_decide(client, asked, item, &why);
	if (r == 0)
		item_place(client, batch, item);
	else
		item_refuse_for(registration, item, r, why.buffer);
}

/* Once for a part of the items. */
static void register_warn(struct tenant *tenant)
{
	admission_warn(tenant, RESOURCE_EVENTS);
	admission_warn(tenant, RESOURCE_LEASES);
	capacity_note(tenant->registry, false);
}

static void register_finish(struct registration *registration);

static void register_end_part(struct registration *registration)
{
	if (--registration->under_way == 0)
		register_finish(registration);
}

static void register_on_answer(void *, struct kernel_call *, size_t);

/* The registration may be at an end when this returns, unless items are still decided. */
static void batch_submit(struct batch *batch)
{
	struct registration *registration = batch->registration;

	if (batch->n == 0) {
		free(batch);
		register_end_part(registration);
		return;
	}
	scheduler_submitted(registration->stream->tenant, batch->n);
	kernel_submit(registration->registry->kernel, batch->calls, batch->n, register_on_answer, batch);
}

/* Some of its items are placed once more. The client may have left meanwhile. */
static void batch_ask_again(struct batch *batch)
{
	struct client *client = batch->registration->task.client;
	size_t n = client ? batch->n_again : 0;

	batch->n = batch->n_again = 0;
	batch->settles = false;
	for (size_t i = 0; i < n; i++)
		item_place(client, batch, batch->items[i]);
	if (n > 0)
		register_warn(batch->registration->tenant);
	batch_submit(batch);
}

static void batch_on_settled(struct settling *settling)
{
	batch_ask_again(container_of(settling, struct batch, settling));
}

static void register_on_answer(void *data, struct kernel_call *calls, size_t n)
{
	struct batch *batch = data;
	struct registration *registration = batch->registration;

	scheduler_answered(registration->connections, registration->stream->tenant, n);
	for (size_t i = 0; i < n; i++)
		if (batch->items[i])
			item_settle(batch, batch->items[i], &calls[i]);
		else
			stream_made(registration->stream, &calls[i]);
	if (batch->settles)
		settling_wait(registration->registry, &batch->settling, batch_on_settled);
	else
		batch_ask_again(batch);
}

/* All is decided, and all calls are answered. */
static void register_finish(struct registration *registration)
{
	struct client *client = registration->task.client;

	task_end(&registration->task);
	if (client && client->life == LIFE_OPEN)
		registered_answer(registration, client);
	/* After the answer is sent, and all is charged. */
	if (registration->has_self_registered)
		stream_note_self_registered(registration->stream);
	if (registration->stream)
		kept_replace(registration->stream);
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
	const size_t items = MIN(undecided->count, PART);
	struct batch *batch = malloc(sizeof(*batch) + (items + 1) * sizeof(batch->calls[0]));
	struct string_item asked;

	if (!batch) {
		client_disconnect(client, registration->serial, REFUSAL_TROUBLE,
				  "the daemon is out of memory; try again later");
		register_end_part(registration);
		return;
	}
	batch->registration = registration;
	batch->n = batch->n_again = 0;
	batch->settling.waits = 0;
	batch->settles = false;
	registration->under_way++;
	for (unsigned i = 0; i < PART && strings_next(undecided, &asked); i++)
		register_decide_item(client, batch, &asked);
	register_warn(registration->tenant);
	/* Not later: others may build on its stream at once. */
	batch_submit(batch);
	if (undecided->count == 0) {
		register_end_part(registration);
		return;
	}
	registration->task.resume = register_on_turn;
	registration->task.abandon = register_abandon;
	scheduler_add(client);
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
	if (!registration)
		return -ENOMEM;
	/* A stream that is shared is proved with this, once for all items. */
	next = stream_for(&client->holder);
	registration->next = next ? next->number : 0;
	registration->under_way = 1;
	task_begin(&registration->task, client);
	register_decide(registration);
	return 0;
}
