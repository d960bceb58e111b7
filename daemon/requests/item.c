/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One event of a REGISTER: decided, leased or asked for, and settled when the kernel has answered. register.c explains. */

#include <stdio.h>

#include "daemon/ledger/entries.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/registered.h"
#include "protocol/event/description.h"

static void batch_add_call(struct batch *batch, struct item *item, struct kernel_call call)
{
	batch->items[batch->n] = item;
	batch->calls[batch->n++] = call;
}

void item_refuse(struct registration *registration, struct item *item, uint32_t refusal, const char *sentence)
{
	const struct event *event = item->grant ? item->grant->event : NULL;
	const char *asked = event ? event->description : registration->asked.text;
	size_t length = 0, most = event ? event->name_length : registration->asked.length;
	TEXT(name, 64); /* as requested, or as registered, and truncated: for the log */

	while (length < most && !strchr(" \t:", asked[length]))
		length++;
	text_put(&name, asked, length);
	if (registration->task.client)
		refusal_note(registration->registry, registration->tenant, name.buffer, refusal, sentence);
	item->refusal = refusal;
	item->sentence = strdup(sentence);
	item->grant = grant_unref(item->grant);
}

void item_refuse_for(struct registration *registration, struct item *item, int r, const char *sentence)
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

int item_decide(struct client *client, const struct string_item *asked, struct item *item, struct text *why)
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
	struct reference *reference = lease_by_bit(holder, item->grant->bit);
	const struct share *share;

	/* For a persistent event the kernel is asked each time. */
	if (LIST_EMPTY(&item->grant->registered) || item->flags & REGISTER_PERSIST)
		return NULL;
	if (reference && !reference->releasing)
		return reference;
	reference = NULL;
	if (!rules_share_streams(holder->tenant)) {
		/* A client with files of its own has few. */
		LIST_FOREACH(share, &holder->shares, in_client)
			if (!reference)
				reference = reference_find(share->stream, item->grant);
		return reference;
	}
	/* Where clients share streams, an event is on few of them. */
	LIST_FOREACH(reference, &item->grant->registered, in_grant)
		if (!reference->releasing && share_find(holder, reference->stream))
			return reference;
	LIST_FOREACH(reference, &item->grant->registered, in_grant)
		if (!reference->releasing && stream_may_serve(reference->stream, holder))
			break;
	/* One more file has to fit into the answer, and there may be a new stream, too. */
	return reference && shares_count(holder, true) < WIRE_FDS_MAX - 1 ? reference : NULL;
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
	r = stream_new(client->holder.tenant, client->holder.known.uid, &call, &registration->stream, why);
	if (r == 0)
		batch_add_call(batch, NULL, call);
	return r;
}

/* Asks the kernel for the item. */
static void item_ask(struct client *client, struct batch *batch, struct item *item)
{
	static const struct entry_reference no_place_yet;
	struct registration *registration = batch->registration;
	struct tenant *tenant = client->holder.tenant;
	struct stream *next = registration->stream;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	int r;

	/* The stream that was chosen for all items may have ended before the first of them is registered on it. */
	if (!next)
		next = stream_by_number(registration->registry, registration->next);
	if (next && next->closed)
		next = NULL;
	/* Where there never was a guard the file would not leave. */
	if (!next && !tenant->registry->kernel->facts.guarded && streams_are_suspect(tenant)) {
		item_refuse_unguarded(registration, item);
		return;
	}
	r = admission_ask_maximum(tenant, RESOURCE_LEASES, &why);
	if (r == 0)
		r = register_take_stream(client, batch, next, &why);
	if (r != 0) {
		item_refuse_for(registration, item, r, why.buffer);
		return;
	}
	ledger_enter(registration->registry->ledger, &item->asked, ENTRY_ASKED, registration->stream->number,
		     item->grant->number, &no_place_yet, sizeof(no_place_yet), "");
	/* Room for the lease, until the call is answered. */
	quota_hold(&tenant->level->own[RESOURCE_LEASES]);
	batch_add_call(batch, item,
		       (struct kernel_call){
			       .op = KERNEL_REGISTER,
			       .page = tenant->number,
			       .stream = registration->stream->number,
			       .flags = item->flags | silencing_ask(item->grant),
			       .text = item->grant->event->description,
			       .fd = -1,
		       });
}

void item_place(struct client *client, struct batch *batch, struct item *item)
{
	struct registration *registration = batch->registration;
	struct reference *reference = register_find_reference(&client->holder, item);
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	int r = 0;

	if (!reference) {
		item_ask(client, batch, item);
		return;
	}
	if (reference->leases > 0 && !lease_by_bit(&client->holder, (uint32_t)reference->bit))
		r = admission_ask_maximum(client->holder.tenant, RESOURCE_LEASES, &why);
	if (r == 0)
		item_lease(registration, &client->holder, item, reference);
	else
		item_refuse_for(registration, item, r, why.buffer);
}

/* The name is taken by an event of which the daemon knows nothing: the item becomes one of many formats. False: it may not. */
static bool item_ask_as_one_of_many(struct batch *batch, struct item *item)
{
	static struct description description; /* large */
	struct registration *registration = batch->registration;
	struct client *client = registration->task.client;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	const char *text = item->grant->event->description;
	int r;

	if (!client || item->flags & REGISTER_MULTI_FORMAT || !grant_may_be_one_of_many(client->holder.tenant) ||
	    description_parse(text, strlen(text), &description, &why) != 0)
		return false;
	item->grant = grant_unref(item->grant);
	item->flags |= REGISTER_MULTI_FORMAT;
	r = grant_get(client->holder.tenant, &description, item->flags, 0, &item->grant, &why);
	/* For the log: the request is gone. */
	registration->asked = (struct string_item){ .text = description.canonical, .length = description.length };
	if (r == 0)
		batch->items[batch->n_again++] = item;
	else
		item_refuse_for(registration, item, r, why.buffer);
	return true;
}

static void item_grant(struct registration *registration, struct item *item, const struct kernel_call *call)
{
	struct client *client = registration->task.client;
	struct reference *reference;

	registration->has_self_registered |= call->number;
	item->grant->bit = call->bit;
	silencing_settle(item->grant);
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

void item_settle(struct batch *batch, struct item *item, const struct kernel_call *call)
{
	struct registration *registration = batch->registration;
	const struct stream *stream = registration->stream;
	uint32_t refusal = REFUSAL_TROUBLE;
	const char *sentence;

	/* The reference and the lease are charged by themselves. */
	quota_release(&stream->tenant->level->own[RESOURCE_LEASES]);
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
	if (call->result == KERNEL_E_SETTLING && settling_goes_on(&batch->settling)) {
		batch->settles = true;
		batch->items[batch->n_again++] = item;
		return;
	}
	if ((call->result == KERNEL_E_NAME_TAKEN || call->result == KERNEL_E_SETTLING) &&
	    item_ask_as_one_of_many(batch, item))
		return;
	if (call->result == KERNEL_E_FULL)
		capacity_note(registration->registry, true);
	sentence = refusal_for_kernel(call->result, &refusal);
	if (sentence)
		item_refuse(registration, item, refusal, sentence);
	else
		item_refuse_for(registration, item, call->result < 0 ? call->result : -EIO, "");
}
