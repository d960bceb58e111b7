/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/registered.h"

#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"

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
static void take_back(struct registration *registration, struct client *client, const struct stream *stream)
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

static void add_stream(struct streams_to_send *streams, struct share *share)
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
			take_back(registration, client, share->stream);
			share_free(share);
			continue;
		}
		add_stream(ret, share);
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

void registered_answer(struct registration *registration, struct client *client)
{
	struct streams_to_send streams = { 0 };
	struct packet *packet;
	size_t mark;

	collect_streams(registration, client, &streams);
	packet = client_answer(client, KIND_REGISTERED, registration->serial, 0);
	encode_begin(packet, KIND_REGISTERED, registration->serial, 0, streams.number, streams.n);
	mark = encode_answers(packet);
	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		encode_item(packet, item);
		if (item->refusal != REFUSAL_NONE)
			refusal_note(client->holder.registry, client->holder.tenant, item->name, item->refusal,
				     item->sentence ? item->sentence : "out of memory");
	}
	encode_count(packet, mark, (uint16_t)registration->n_items);
	client_send(client, streams.fd, streams.n);
	if (makes_bundle(registration, client))
		bundle_make(&client->holder, registration->parking.key, packet->data + mark, packet->size - mark);
	close_what_left(client);
}

bool registered_answer_alike(struct client *client, const struct bundle_key *key, uint32_t serial)
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
		add_stream(&streams, share);
	}
	packet = client_answer(client, KIND_REGISTERED, serial, 0);
	encode_begin(packet, KIND_REGISTERED, serial, 0, streams.number, streams.n);
	packet_put(packet, bundle->answer, bundle->answer_size);
	client_send(client, streams.fd, streams.n);
	return true;
}
