/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/registered.h"

#include "daemon/registry/admission.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/precedent.h"
#include "daemon/registry/reference.h"
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

	leases_drop_on(&client->holder, stream);
	for (size_t i = 0; i < registration->n_items; i++) {
		struct item *item = &registration->items[i];

		if (item->refusal != REFUSAL_NONE || item->stream != stream)
			continue;
		if (distrust)
			item_refuse(registration, item, REFUSAL_NOT_PERMITTED, distrust);
		else
			item_refuse_unguarded(registration, item);
	}
}

struct streams_to_send {
	struct stream *stream[WIRE_FDS_MAX];
	uint32_t number[WIRE_FDS_MAX];
	int fd[WIRE_FDS_MAX];
	uint8_t n;
};

static void add_stream(struct streams_to_send *streams, struct share *share)
{
	streams->stream[streams->n] = share->stream;
	streams->number[streams->n] = share->stream->number;
	streams->fd[streams->n++] = share->stream->fd;
	share_send(share);
}

/* Those that the client has a share of and not yet the file. Proved before it leaves. */
static void collect_streams(struct registration *registration, struct client *client, struct streams_to_send *ret)
{
	struct share *share, *next;

	ret->n = 0;
	share = client->holder.has_new_share ? LIST_FIRST(&client->holder.shares) : NULL;
	for (; share; share = next) {
		next = LIST_NEXT(share, in_client);
		if (share->sent || ret->n == WIRE_FDS_MAX)
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

/* Later identical requests are answered alike, if nothing is in the way of that: all of it was there, on shared files. */
static void set_precedent(const struct registration *registration, struct client *client, struct cursor answer)
{
	static struct reference *references[WIRE_BATCH_MAX];

	/* Without a stream the kernel was not asked. After a reload the policy in force may refuse what the last one granted. */
	if (registration->stream || registration->n_items < PRECEDENT_EVENTS_MIN ||
	    registration->generation != registration->registry->generation)
		return;
	for (size_t i = 0; i < registration->n_items; i++) {
		const struct item *item = &registration->items[i];

		if (item->refusal != REFUSAL_NONE || item->flags & REGISTER_PERSIST || !item->stream->shared)
			return;
		references[i] = lease_by_bit(&client->holder, item->grant->bit);
	}
	precedent_set(&client->holder, registration->request, answer, references, registration->n_items);
}

void registered_answer(struct registration *registration, struct client *client)
{
	struct streams_to_send streams;
	struct packet *packet;
	size_t mark;

	collect_streams(registration, client, &streams);
	packet = client_answer(client, KIND_REGISTERED, registration->serial, 0);
	encode_begin(packet, KIND_REGISTERED, registration->serial, 0, streams.number, streams.n);
	mark = encode_list(packet, 0);
	for (size_t i = 0; i < registration->n_items; i++)
		encode_item(packet, &registration->items[i]);
	encode_count(packet, mark, (uint16_t)registration->n_items);
	client_send(client, streams.fd, streams.n);
	set_precedent(registration, client, cursor_make(packet->data + mark, packet->size - mark));
	/* Our copies of files that no other client will get, unless the next keeper would need them. */
	for (size_t i = 0; i < streams.n && !registration->registry->ledger; i++)
		if (!streams.stream[i]->shared)
			streams.stream[i]->fd = fd_close(streams.stream[i]->fd);
}

bool registered_answer_alike(struct client *client, const struct message *message)
{
	const struct precedent *precedent = precedent_find(&client->holder, message->body);
	struct streams_to_send streams;
	struct packet *packet;
	struct share *share;
	size_t n = 0;

	if (!precedent)
		return false;
	if (id_table_reserve(&client->holder.leases, (uint32_t)precedent->n))
		while (n < precedent->n && lease_get(&client->holder, precedent->reference[n]))
			n++;
	streams.n = 0;
	/* Every file is proved before it is sent. */
	share = n == precedent->n ? LIST_FIRST(&client->holder.shares) : NULL;
	for (; share && !share_must_stay(share, 1); share = LIST_NEXT(share, in_client))
		add_stream(&streams, share);
	if (n < precedent->n || share) {
		leases_drop(&client->holder, UINT_MAX);
		shares_tidy(&client->holder);
		return false;
	}
	admission_warn(client->holder.tenant, RESOURCE_LEASES);
	packet = client_answer(client, KIND_REGISTERED, message->serial, 0);
	encode_begin(packet, KIND_REGISTERED, message->serial, 0, streams.number, streams.n);
	packet_put(packet, precedent->answer.at, precedent->answer.left);
	client_send(client, streams.fd, streams.n);
	return true;
}
