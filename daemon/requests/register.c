/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A batch of events is decided event by event. An event that is already registered on a stream that the client has, or may
 * have, is leased at once. The kernel is asked for the others, and begins with the first while the last are decided. Until
 * the kernel has answered, each item of the registration owns a reference to its grant, and so its charge. When the kernel
 * has granted it, it becomes a reference of the stream and a lease of the client, before the answer is sent. Anything else is
 * released with the item. If the client leaves meanwhile, only the leases are not made.
 *
 * If a bundle holds all the events of an identical request, nothing is decided. A request that is identical to one under way
 * waits for that: five hundred workers that start together are one registration.
 */

#include "daemon/requests/register.h"

#include <float.h>
#include <stdio.h>

#include "daemon/connection/parking.h"
#include "daemon/connection/scheduler.h"
#include "daemon/process/clock.h"
#include "daemon/process/memory.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/event/description.h"

enum { NO_CALL = SIZE_MAX };

/*
 * Items that are decided in one turn: a hundred microseconds' worth, and half of the calls that fit into one packet to the
 * keeper.
 */
enum { PART = 50 };

struct item {
	struct grant *grant; /* NULL: refused */
	uint32_t refusal;
	char *sentence; /* of a refusal; NULL where memory was short */
	size_t call;	/* which one is this item's, of the registration's calls; NO_CALL: leased at once */
	bool claims;	/* room for a lease, until the call is answered */
	uint16_t flags;
	bool again;	       /* to be asked for once more, as one of many formats */
	struct stream *stream; /* on which it was granted; the client's share keeps it */
	uint32_t index;
	char name[64]; /* as requested, truncated: for the log */
};

/* With its call and, at worst, a sentence. The request is there twice at most: to be decided, and as the key of a parking. */
enum { ITEM_BYTES = sizeof(struct item) + sizeof(struct kernel_call) + WIRE_SENTENCE_MAX };

struct registration {
	struct client_task task;
	struct connections *connections;
	struct registry *registry;
	struct tenant *tenant; /* kept by the client as long as it is there, and then by the stream */
	struct stream *stream; /* on which all is registered that has to be; NULL: nothing has */
	uint32_t next;	       /* the number of the one that stream_for() has said; 0: none */
	bool next_is_known;
	bool stream_is_new;	  /* the first call makes it, and is not answered */
	bool has_self_registered; /* a program has registered on the stream by itself */
	uint32_t serial;
	unsigned generation; /* of the policy by which it is decided */
	size_t n_items;
	struct item *items;
	size_t n_decided;	  /* the first items */
	size_t n_settled;	  /* leased, or refused, or there is no call of theirs */
	struct strings undecided; /* the request behind those; after the first turn, it is in: */
	uint8_t *copy;
	size_t n_calls;
	struct kernel_call *calls; /* one for the stream, and at most one for each item */
	size_t n_submitted;	   /* calls */
	size_t bytes;		   /* of the tenant's that wait */
	size_t n_answered;	   /* of these */
	size_t n_final;		   /* of these: not to be asked again */
	bool asks_again;	   /* the calls behind the final ones; as long as: */
	double settles_until;	   /* clock_now() */
	unsigned under_way;	   /* that often the kernel is to answer; and one as long as items are decided */
	struct parking parking;	   /* identical requests that wait for this one */
};

static struct registration *registration_free(struct registration *registration)
{
	if (!registration)
		return NULL;
	parking_close(&registration->parking);
	registration->tenant->waiting -= registration->bytes;
	memory_freed(&registration->registry->memory, registration->bytes);
	for (size_t i = 0; i < registration->n_items; i++) {
		grant_unref(registration->items[i].grant);
		free(registration->items[i].sentence);
	}
	if (registration->stream)
		stream_unuse(registration->stream);
	free(registration->items);
	free(registration->calls);
	free(registration->copy);
	free(registration);
	return NULL;
}

static struct registration *registration_new(struct client *client, uint32_t serial, const struct strings *strings)
{
	size_t n = strings->count;
	struct registration *registration = calloc(1, sizeof(*registration));

	if (!registration)
		return NULL;
	registration->connections = client->connections;
	registration->registry = client->holder.registry;
	registration->tenant = client->holder.tenant;
	registration->bytes = sizeof(*registration) + (n + 1) * ITEM_BYTES + 2 * strings->items.left;
	registration->tenant->waiting += registration->bytes;
	registration->serial = serial;
	registration->generation = client->holder.registry->generation;
	registration->items = calloc(MAX(n, 1), sizeof(*registration->items));
	registration->calls = calloc(n + 1, sizeof(*registration->calls));
	if (!registration->items || !registration->calls)
		return registration_free(registration);
	registration->n_items = n;
	registration->undecided = *strings;
	registration->settles_until = DBL_MAX;
	return registration;
}

static void item_refuse(struct item *item, uint32_t refusal, const char *sentence)
{
	item->refusal = refusal;
	item->sentence = strdup(sentence);
	item->grant = grant_unref(item->grant);
}

static void item_refuse_errno(struct item *item, int error)
{
	char sentence[WIRE_SENTENCE_MAX];

	snprintf(sentence, sizeof(sentence), "trouble in the daemon or the kernel (%s); try again later",
		 strerror(-error));
	item_refuse(item, REFUSAL_TROUBLE, sentence);
}

/* `r`: a positive refusal with its sentence, or a negative errno. */
static void item_refuse_for(struct item *item, int r, const char *sentence)
{
	if (r > 0)
		item_refuse(item, (uint32_t)r, sentence);
	else
		item_refuse_errno(item, r);
}

/* Decides without the kernel. 0, or a positive refusal with its sentence, or a negative errno. */
static int item_decide(struct client *client, const struct string_item *asked, struct item *item, struct text *why)
{
	static struct description description; /* large, and used up before the next one comes */
	struct policy_verdict verdict;
	const uint16_t known = REGISTER_PERSIST | REGISTER_MULTI_FORMAT;
	int r;

	if (asked->flags & ~known) {
		text_printf(why, "unknown flags %#x; a newer daemon may know them", asked->flags & ~known);
		return REFUSAL_KERNEL_TOO_OLD;
	}
	if (asked->flags & ~client->holder.registry->kernel->facts.flags) {
		text_printf(why, "the %s backend has no %s events; register it without that flag",
			    backend_name(client->holder.registry->kernel->facts.backend),
			    asked->flags & REGISTER_PERSIST ? "persistent" : "multi-format");
		return REFUSAL_KERNEL_TOO_OLD;
	}
	r = policy_admit(&client->holder.tenant->rules.values, asked->text, asked->length, asked->flags, &description,
			 &verdict, why);
	if (r != 0)
		return r;
	item->flags = grant_flags(client->holder.tenant, &description, asked->flags);
	return grant_get(client->holder.tenant, &description, item->flags, &item->grant, why);
}

/* Already on a stream that the client has, or may have. NULL: the kernel has to be asked. */
static struct reference *register_find_reference(const struct client *client, struct grant *grant)
{
	struct reference *reference;
	const struct share *share;
	unsigned unsent = 0;

	LIST_FOREACH(share, &client->holder.shares, in_client) {
		unsent += !share->sent;
		reference = reference_find(share->stream, grant);
		if (reference)
			return reference;
	}
	/* One more file has to fit into the answer, and there may be a new stream, too. */
	if (!rules_share_streams(client->holder.tenant) || unsent >= WIRE_FDS_MAX - 1)
		return NULL;
	LIST_FOREACH(reference, &grant->registered, in_grant)
		if (!reference->release && stream_may_serve(reference->stream, &client->holder))
			return reference;
	return NULL;
}

/* The client may have it already, on another stream. */
static void item_lease(struct client *client, struct item *item, struct reference *reference)
{
	const struct lease *lease = lease_get(&client->holder, reference);

	if (!lease) {
		item_refuse_errno(item, -ENOMEM);
		return;
	}
	item->stream = lease->reference->stream;
	item->index = lease->reference->index;
}

static void item_grant_at_once(struct client *client, struct item *item, struct reference *reference)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	bool is_free = LIST_EMPTY(&reference->leases) || lease_by_bit(&client->holder, reference->grant->bit);
	int r = is_free ? 0 : admission_ask_lease(client->holder.tenant, &why);

	item->call = NO_CALL;
	if (r > 0)
		item_refuse(item, (uint32_t)r, sentence);
	else
		item_lease(client, item, reference);
}

/* The stream on which to register: one that serves the client, or a new one. 0, a refusal, or a negative errno. */
static int register_take_stream(struct client *client, struct registration *registration, struct stream *next,
				struct text *why)
{
	struct kernel_call call;
	int r;

	if (registration->stream)
		return 0;
	if (next) {
		registration->stream = stream_use(next);
		stream_probe(next);
		return 0;
	}
	if (!fd_budget_has_room(client->holder.registry))
		return -EMFILE;
	r = stream_new(client->holder.tenant, client->holder.uid, &call, &registration->stream, why);
	if (r != 0)
		return r;
	registration->stream_is_new = true;
	registration->calls[registration->n_calls++] = call;
	return 0;
}

static void register_add_call(struct registration *registration, struct item *item)
{
	struct tenant *tenant = registration->stream->tenant;

	reference_enter_asked(registration->stream, item->grant);
	item->claims = true;
	quota_hold(&tenant->level->own_leases);
	admission_warn(tenant, RESOURCE_LEASES);
	item->call = registration->n_calls;
	registration->calls[registration->n_calls++] = (struct kernel_call){
		.op = KERNEL_REGISTER,
		.page = item->grant->tenant->number,
		.stream = registration->stream->number,
		.flags = item->flags,
		.text = item->grant->event->description,
		.fd = -1,
	};
}

/* One that is shared is proved first, so that is asked once for all items. It may end before there is one for it. */
static struct stream *register_next_stream(const struct client *client, struct registration *registration)
{
	struct stream *next;

	if (registration->stream)
		return registration->stream;
	if (!registration->next_is_known) {
		next = stream_for(&client->holder);
		registration->next = next ? next->number : 0;
		registration->next_is_known = true;
	}
	next = stream_by_number(registration->registry, registration->next);
	return next && !next->closed ? next : NULL;
}

static void item_refuse_unguarded(struct item *item, const struct tenant *tenant)
{
	if (streams_are_suspect(tenant)) {
		capacity_look(tenant->registry);
		item_refuse(
			item, REFUSAL_TROUBLE,
			"there are events that nobody knows, and this tenant has an unguarded data file that was kept open "
			"after hanging up: no new one until it is closed");
	} else {
		item_refuse(item, REFUSAL_TROUBLE,
			    "data files have lost their guard, and are not given out without; tell the admin");
	}
}

static void register_place_item(struct client *client, struct registration *registration, struct item *item)
{
	struct stream *next = register_next_stream(client, registration);
	struct reference *reference = NULL;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	/* For a persistent event the kernel is asked each time. */
	if (!(item->flags & REGISTER_PERSIST))
		reference = register_find_reference(client, item->grant);
	if (reference) {
		item_grant_at_once(client, item, reference);
		return;
	}
	/* Where there never was a guard the file would not leave. */
	if (!next && !client->holder.registry->kernel->facts.guarded && streams_are_suspect(client->holder.tenant)) {
		item_refuse_unguarded(item, client->holder.tenant);
		return;
	}
	r = admission_ask_lease(client->holder.tenant, &why);
	if (r == 0)
		r = register_take_stream(client, registration, next, &why);
	if (r == 0)
		register_add_call(registration, item);
	else
		item_refuse_for(item, r, sentence);
}

static void register_decide_item(struct client *client, struct registration *registration, struct item *item,
				 const struct string_item *asked)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence)), name = text_make(item->name, sizeof(item->name));
	size_t name_length = 0;
	int r;

	while (name_length < asked->length && !strchr(" \t:", asked->text[name_length]))
		name_length++;
	text_put(&name, asked->text, name_length);

	item->flags = asked->flags;
	r = item_decide(client, asked, item, &why);
	if (r == 0)
		register_place_item(client, registration, item);
	else
		item_refuse_for(item, r, sentence);
}

/* It is not registered, unless another request has registered it, too. */
static void item_forget_asked(const struct registration *registration, const struct item *item)
{
	struct reference *reference;

	NUMBER_FIND(by_grant, registration->stream->references, item->grant, reference);
	if (!reference)
		reference_strike(registration->stream, item->grant);
}

/* The name is taken by an event of which the daemon knows nothing: the item becomes one of many formats. False: it may not. */
static bool item_ask_as_one_of_many(struct registration *registration, const struct client *client, struct item *item)
{
	static struct description description; /* large, and used up before the next one comes */
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	const char *text = item->grant->event->description;
	int r;

	if (!client || item->flags & REGISTER_MULTI_FORMAT || !grant_may_be_one_of_many(client->holder.tenant) ||
	    description_parse(text, strlen(text), &description, &why) != 0)
		return false;
	item_forget_asked(registration, item);
	item->grant = grant_unref(item->grant);
	item->flags |= REGISTER_MULTI_FORMAT;
	r = grant_get(client->holder.tenant, &description, item->flags, &item->grant, &why);
	if (r != 0)
		item_refuse_for(item, r, sentence);
	item->again = r == 0;
	return true;
}

static void register_grant_item(struct registration *registration, struct client *client, struct item *item)
{
	const struct kernel_call *call = &registration->calls[item->call];
	uint32_t refusal = REFUSAL_TROUBLE;
	struct reference *reference;
	const char *sentence;

	if (call->result != KERNEL_OK) {
		if ((call->result == KERNEL_E_NAME_TAKEN || call->result == KERNEL_E_SETTLING) &&
		    item_ask_as_one_of_many(registration, client, item))
			return;
		if (call->result == KERNEL_E_FULL)
			capacity_note(registration->registry, true);
		item_forget_asked(registration, item);
		sentence = refusal_for_kernel(call->result, &refusal);
		if (sentence)
			item_refuse(item, refusal, sentence);
		else
			item_refuse_errno(item, call->result < 0 ? call->result : -EIO);
		return;
	}
	registration->has_self_registered |= call->number;
	item->grant->bit = call->bit;
	reference = reference_get(registration->stream, item->grant, call->index);
	if (!reference) {
		/* It stays registered until the stream ends. */
		item_refuse_errno(item, -ENOMEM);
		return;
	}
	if (item->flags & REGISTER_PERSIST)
		grant_persists(item->grant);
	if (client)
		item_lease(client, item, reference);
	if (LIST_EMPTY(&reference->leases))
		references_release(&reference, 1);
}

static void encode_item(struct packet *packet, const struct item *item)
{
	struct answer answer = { .refusal = item->refusal };

	if (item->refusal == REFUSAL_NONE) {
		const struct grant *grant = item->grant;

		answer.bit = grant->bit;
		answer.stream = item->stream->number;
		answer.index = item->index;
		if (grant->tenant->rules.values.value[POLICY_NAME_PREFIX]->text) {
			answer.text = grant->event->description;
			answer.length = grant->event->name_length;
		}
	} else if (item->sentence) {
		answer.text = item->sentence;
		answer.length = strlen(item->sentence);
	}
	encode_answer(packet, &answer);
}

/*
 * The client must not have this stream after all: drops its leases there, of this request or of one that an earlier daemon
 * granted without answering.
 */
static void register_take_back(struct registration *registration, struct client *client, const struct stream *stream)
{
	const char *distrust = rules_distrust(&client->holder);
	struct lease *lease, *next;

	HASH_ITER(by_bit, client->holder.leases, lease, next)
		if (lease->reference->stream == stream)
			lease_drop(lease);
	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		if (item->refusal != REFUSAL_NONE || item->stream != stream)
			continue;
		if (distrust)
			item_refuse(item, REFUSAL_NOT_PERMITTED, distrust);
		else
			item_refuse_unguarded(item, client->holder.tenant);
	}
}

struct streams_to_send {
	uint32_t number[WIRE_FDS_MAX];
	int fd[WIRE_FDS_MAX];
	uint8_t n;
};

static void register_add_stream(struct streams_to_send *streams, struct share *share)
{
	streams->number[streams->n] = share->stream->number;
	streams->fd[streams->n++] = share->stream->fd;
	share->sent = true;
}

/* Those that the client has a share of and not yet the file. Proved before it leaves. */
static void collect_streams(struct registration *registration, struct client *client, struct streams_to_send *ret)
{
	struct share *share, *next;

	for (share = LIST_FIRST(&client->holder.shares); share; share = next) {
		next = LIST_NEXT(share, in_client);
		/* Without memory there may be a share and no lease: it ends when the answer has left. */
		if (share->sent || share->leases == 0 || ret->n == WIRE_FDS_MAX)
			continue;
		/* The client's share, and the registration itself. */
		if (share_must_stay(share, registration->stream == share->stream ? 2 : 1)) {
			register_take_back(registration, client, share->stream);
			share_free(share);
			continue;
		}
		register_add_stream(ret, share);
	}
}

/* Whether the client has got all that it asked for, nothing else, and in a way that serves others. */
static bool makes_bundle(const struct registration *registration, const struct client *client)
{
	if (!registration->parking.key || client->holder.bundle ||
	    HASH_CNT(by_bit, client->holder.leases) != registration->n_items)
		return false;
	/* After a reload another client might be refused what this one was granted. */
	if (registration->generation != client->holder.registry->generation)
		return false;
	for (size_t i = 0; i < registration->n_items; i++) {
		const struct item *item = &registration->items[i];

		if (item->refusal != REFUSAL_NONE || item->flags & REGISTER_PERSIST || !item->stream->shared)
			return false;
	}
	return true;
}

static void register_answer(struct registration *registration, struct client *client)
{
	struct streams_to_send streams = { 0 };
	struct packet *packet;
	uint32_t refused = 0;
	size_t mark;

	collect_streams(registration, client, &streams);
	packet = client_answer(client, KIND_REGISTERED, registration->serial, 0);
	encode_begin(packet, KIND_REGISTERED, registration->serial, 0, streams.number, streams.n);
	mark = encode_answers(packet);
	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		encode_item(packet, item);
		if (item->refusal != REFUSAL_NONE && ++refused)
			refusal_note(client->holder.registry, client->holder.tenant, item->name, item->refusal,
				     item->sentence ? item->sentence : "out of memory");
	}
	encode_count(packet, mark, (uint16_t)registration->n_items);
	client_send(client, streams.fd, streams.n);
	if (makes_bundle(registration, client))
		bundle_make(&client->holder, registration->parking.key, packet->data + mark, packet->size - mark);
}

/* Closes our copies of files that no other client will get, unless the next keeper would need them. */
static void close_what_left(struct client *client)
{
	struct share *share;

	if (client->holder.registry->ledger)
		return;
	LIST_FOREACH(share, &client->holder.shares, in_client)
		if (share->sent && !share->stream->shared)
			share->stream->fd = fd_close(share->stream->fd);
}

/* The calls before `end` are answered. Not left for the end: then the kernel has nothing to do any more. */
static void register_settle(struct registration *registration, size_t end)
{
	struct tenant *tenant = registration->stream->tenant;
	int stream_failed = registration->stream->failed;

	if (registration->stream_is_new)
		stream_failed = stream_made(registration->stream, &registration->calls[0]);
	registration->stream_is_new = false;
	for (; registration->n_settled < registration->n_decided; registration->n_settled++) {
		struct item *item = &registration->items[registration->n_settled];

		if (item->refusal != REFUSAL_NONE || item->call == NO_CALL)
			continue;
		if (item->call >= end)
			return;
		/* The reference and the lease are charged by themselves. */
		if (item->claims)
			quota_release(&tenant->level->own_leases);
		item->claims = false;
		if (!stream_failed) {
			register_grant_item(registration, registration->task.client, item);
			continue;
		}
		item_forget_asked(registration, item);
		if (stream_failed == STREAM_E_UNGUARDED)
			item_refuse_unguarded(item, tenant);
		else
			item_refuse_errno(item, stream_failed);
	}
}

static void register_submit(struct registration *registration);

/*
 * All calls are answered: asks for events with a taken name once more, as multi-format events, a part at a time. False: there
 * are none.
 */
static bool register_ask_again(struct registration *registration)
{
	struct client *client = registration->task.client;
	bool any;

	registration->n_calls = registration->n_submitted = registration->n_answered = registration->n_final = 0;
	for (size_t i = 0; i < registration->n_decided; i++) {
		struct item *item = &registration->items[i];

		item->call = NO_CALL;
		if (!item->again || registration->n_calls == PART)
			continue;
		item->again = false;
		if (client)
			register_place_item(client, registration, item);
	}
	registration->n_settled = 0;
	any = registration->n_calls > 0;
	/* It may be at an end when this returns. */
	register_submit(registration);
	return any;
}

static void register_finish(struct registration *registration)
{
	struct client *client;

	if (register_ask_again(registration))
		return;
	client = task_end(&registration->task);
	if (client) {
		register_answer(registration, client);
		close_what_left(client);
		shares_tidy(&client->holder);
	}
	/* After the answer is sent, and all is charged. */
	if (registration->has_self_registered)
		stream_note_self_registered(registration->stream);
	if (registration->stream)
		stream_replaces(registration->stream);
	registration_free(registration);
}

static void register_end_part(struct registration *registration)
{
	if (--registration->under_way == 0)
		register_finish(registration);
}

static void register_go_on(struct registration *);

static void register_on_asked_again(void *data, struct kernel_call *calls _unused_, size_t n)
{
	struct registration *registration = data;

	registration->asks_again = false;
	registration->registry->others.registering -= (uint32_t)n;
	register_go_on(registration);
	register_end_part(registration);
}

/* Items are settled in order: those behind a name that the kernel is about to free wait for it. */
static void register_go_on(struct registration *registration)
{
	struct kernel_call *calls = registration->calls + registration->n_final;
	size_t n = registration->n_answered - registration->n_final;

	if (registration->asks_again)
		return;
	registration->n_final += settling_count_final(calls, n, registration->settles_until);
	register_settle(registration, registration->n_final);
	calls = registration->calls + registration->n_final;
	n = registration->n_answered - registration->n_final;
	if (n == 0)
		return;
	registration->settles_until = MIN(registration->settles_until, clock_now() + SETTLE_PATIENCE);
	registration->under_way++;
	registration->asks_again = true;
	registration->registry->others.registering += (uint32_t)n;
	if (!settling_ask(registration->registry, calls, n, register_on_asked_again, registration)) {
		registration->settles_until = -1.;
		register_on_asked_again(registration, calls, n);
	}
}

static void register_on_answer(void *data, struct kernel_call *calls _unused_, size_t n)
{
	struct registration *registration = data;

	scheduler_answered(registration->connections, registration->stream->tenant, n);
	registration->n_answered += n;
	register_go_on(registration);
	register_end_part(registration);
}

static void register_submit(struct registration *registration)
{
	struct kernel_call *calls = registration->calls + registration->n_submitted;
	size_t n = registration->n_calls - registration->n_submitted;

	if (n == 0)
		return;
	registration->n_submitted += n;
	registration->under_way++;
	scheduler_submitted(registration->stream->tenant, n);
	kernel_submit(registration->registry->kernel, calls, n, register_on_answer, registration);
}

/* All of it is there already. False: it has to be gone through. */
static bool grant_bundle(struct client *client, const struct bundle_key *key, uint32_t serial)
{
	struct bundle *bundle = bundle_find(&client->holder, key);
	struct streams_to_send streams = { 0 };
	struct packet *packet;
	struct share *share;

	if (!bundle || bundle_join(bundle, &client->holder) < 0)
		return false;
	LIST_FOREACH(share, &client->holder.shares, in_client) {
		/* Every file is proved before it is sent. */
		if (share_must_stay(share, 1)) {
			bundle_leave(&client->holder);
			shares_tidy(&client->holder);
			return false;
		}
		register_add_stream(&streams, share);
	}
	packet = client_answer(client, KIND_REGISTERED, serial, 0);
	encode_begin(packet, KIND_REGISTERED, serial, 0, streams.number, streams.n);
	packet_put(packet, bundle->answer, bundle->answer_size);
	client_send(client, streams.fd, streams.n);
	return true;
}

/* The undecided rest is in the buffer for requests, which all clients share: makes a copy. */
static bool keep_undecided(struct registration *registration)
{
	struct cursor *items = &registration->undecided.items;

	if (registration->copy)
		return true;
	registration->copy = malloc(items->left);
	if (!registration->copy)
		return false;
	memcpy(registration->copy, items->at, items->left);
	*items = cursor_make(registration->copy, items->left);
	return true;
}

static void register_resume(struct client_task *);
static void register_abandon(struct client_task *);

static void register_decide_more(struct client *client, struct registration *registration)
{
	struct string_item asked;

	do {
		for (unsigned i = 0; i < PART && strings_next(&registration->undecided, &asked); i++)
			register_decide_item(client, registration, &registration->items[registration->n_decided++],
					     &asked);
		/* Not later: others may build on its stream at once. */
		register_submit(registration);
		if (registration->undecided.count == 0) {
			register_end_part(registration);
			return;
		}
	} while (!keep_undecided(registration));
	task_put_off(&registration->task, register_resume, register_abandon);
}

static void register_resume(struct client_task *task)
{
	register_decide_more(task->client, container_of(task, struct registration, task));
}

/* Ends the items that are decided, and does not begin the others. */
static void register_abandon(struct client_task *task)
{
	struct registration *registration = container_of(task, struct registration, task);

	registration->n_items = registration->n_decided;
	register_end_part(registration);
}

static int register_strings(struct client *client, const struct message *message, const struct bundle_key *key)
{
	struct registration *registration;
	struct strings strings;
	int r;

	r = decode_strings(message->body, &strings);
	if (r != 0 || strings.flags != 0)
		return REFUSAL_BAD_PACKET;
	registration = registration_new(client, message->serial, &strings);
	if (!registration) {
		client_disconnect(client, message->serial, REFUSAL_TROUBLE,
				  "the daemon is out of memory; try again later");
		return 0;
	}
	if (key && strings.count >= BUNDLE_EVENTS_MIN)
		parking_open(&registration->parking, client->holder.tenant, key);
	task_begin(&registration->task, client);
	registration->under_way = 1;
	register_decide_more(client, registration);
	return 0;
}

int handle_register(struct client *client, const struct message *message)
{
	static struct bundle_key key; /* large */
	struct parking *alike;

	if (!bundle_may_serve(&client->holder))
		return register_strings(client, message, NULL);
	bundle_key(&client->holder, message->body, &key);
	if (grant_bundle(client, &key, message->serial))
		return 0;
	alike = parking_find(client->holder.tenant, &key);
	if (alike && park(client, alike))
		return 0;
	return register_strings(client, message, alike ? NULL : &key);
}
