/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/bundle.h"

#include "daemon/connection/client.h"
#include "daemon/daemon.h"
#include "daemon/ledger/entries.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"

static bool may_serve(const struct bundle *bundle, const struct client *client)
{
	for (size_t i = 0; i < bundle->n_parts; i++)
		if (!stream_may_serve(bundle->parts[i].stream, client))
			return false;
	return true;
}

void bundle_key(const struct client *client, struct cursor request, struct bundle_key *ret)
{
	ret->uid = client->uid;
	memcpy(ret->request, request.at, request.left);
	ret->size = sizeof(ret->uid) + request.left;
}

struct bundle_key *bundle_key_copy(const struct bundle_key *key)
{
	size_t size = offsetof(struct bundle_key, uid) + key->size;
	struct bundle_key *copy = malloc(size);

	if (copy)
		memcpy(copy, key, size);
	return copy;
}

static struct bundle *find(const struct tenant *tenant, const struct bundle_key *key)
{
	struct bundle *bundle;

	HASH_FIND(by_key, tenant->bundles, &key->uid, key->size, bundle);
	return bundle;
}

bool bundle_may_serve(const struct client *client)
{
	return rules_share_streams(client->tenant) && !client->leases && !client->bundle;
}

struct bundle *bundle_find(const struct client *client, const struct bundle_key *key)
{
	struct bundle *bundle = find(client->tenant, key);

	return bundle && may_serve(bundle, client) ? bundle : NULL;
}

static void unlist(struct bundle *bundle)
{
	if (bundle && bundle->listed)
		HASH_DELETE(by_key, bundle->tenant->bundles, bundle);
	if (bundle)
		bundle->listed = false;
}

void bundles_unlist(struct tenant *tenant)
{
	while (tenant->bundles)
		unlist(tenant->bundles);
}

static void bundle_free(struct bundle *bundle)
{
	struct lease *lease, *next;

	unlist(bundle);
	bundle->tenant->bundle_bytes -= bundle->bytes;
	HASH_ITER(by_bit, bundle->leases, lease, next)
		lease_drop(lease);
	free(bundle->parts);
	free(bundle->answer);
	free(bundle);
}

static bool bundle_has(const struct bundle *bundle, uint32_t bit)
{
	struct lease *lease;

	NUMBER_FIND(by_bit, bundle->leases, bit, lease);
	return lease;
}

static void part_with(struct client *client, const struct bundle *bundle, size_t parts)
{
	for (size_t i = 0; i < parts; i++)
		share_find(client, bundle->parts[i].stream)->leases -= bundle->parts[i].leases;
}

static void enter(struct bundle *bundle, struct client *client)
{
	LIST_INSERT_HEAD(&bundle->clients, client, in_bundle);
	bundle->n_clients++;
	client->bundle = bundle;
	enter_client(client);
}

int bundle_join(struct bundle *bundle, struct client *client)
{
	const struct lease *lease;

	for (size_t i = 0; i < bundle->n_parts; i++) {
		struct share *share = share_get(client, bundle->parts[i].stream);

		if (!share) {
			part_with(client, bundle, i);
			return -ENOMEM;
		}
		share->leases += bundle->parts[i].leases;
	}
	for (lease = bundle->leases; lease; lease = lease->by_bit.next)
		grant_lease_begins(lease->reference->grant);
	client->daemon->leases += HASH_CNT(by_bit, bundle->leases);
	enter(bundle, client);
	return 0;
}

/* The last one's are dropped with it. */
static void leave(struct bundle *bundle, struct client *client)
{
	const struct lease *lease;

	LIST_REMOVE(client, in_bundle);
	part_with(client, bundle, bundle->n_parts);
	if (--bundle->n_clients == 0) {
		bundle_free(bundle);
		return;
	}
	for (lease = bundle->leases; lease; lease = lease->by_bit.next)
		grant_lease_ends(lease->reference->grant);
	client->daemon->leases -= HASH_CNT(by_bit, bundle->leases);
}

void bundle_leave(struct client *client)
{
	struct bundle *bundle = client->bundle;

	client->bundle = NULL;
	if (bundle)
		leave(bundle, client);
}

static struct bundle *bundle_new(struct client *client, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *bundle = calloc(1, sizeof(*bundle) + key->size);

	if (!bundle)
		return NULL;
	bundle->tenant = client->tenant;
	bundle->bytes = key->size + size;
	bundle->tenant->bundle_bytes += bundle->bytes;
	LIST_INIT(&bundle->clients);
	memcpy(bundle->key, &key->uid, key->size);
	bundle->answer = malloc(MAX(size, 1));
	bundle->parts = calloc(MAX(shares_count(client), 1), sizeof(*bundle->parts));
	if (!bundle->answer || !bundle->parts) {
		bundle_free(bundle);
		return NULL;
	}
	if (size > 0)
		memcpy(bundle->answer, answer, size);
	bundle->answer_size = size;
	return bundle;
}

static void take_over(struct bundle *bundle, struct client *client)
{
	const struct share *share;
	struct lease *lease;

	LIST_FOREACH(share, &client->shares, in_client)
		if (share->leases > 0)
			bundle->parts[bundle->n_parts++] = (struct bundle_part){ share->stream, share->leases };
	bundle->leases = client->leases;
	client->leases = NULL;
	/* So they need not be entered again. */
	bundle->holder = client->holder;
	client->holder = ++client->daemon->last_number;
	for (lease = bundle->leases; lease; lease = lease->by_bit.next) {
		lease->client = NULL;
		lease->bundle = bundle;
	}
	enter(bundle, client);
}

struct bundle *bundle_restore(struct client *client)
{
	static const struct bundle_key none;
	struct bundle *bundle = bundle_new(client, &none, NULL, 0);

	if (bundle)
		take_over(bundle, client);
	return bundle;
}

void bundle_make(struct client *client, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *before = find(client->tenant, key);
	struct bundle *bundle;

	/* Without one each client's leases are its own. */
	if (client->tenant->bundle_bytes + key->size + size > BUNDLE_BYTES_MAX)
		return;
	bundle = bundle_new(client, key, answer, size);
	if (!bundle)
		return;
	HASH_ADD_KEYPTR(by_key, client->tenant->bundles, bundle->key, key->size, bundle);
	bundle->listed = table_added();
	if (!bundle->listed) {
		bundle_free(bundle);
		return;
	}
	/* That one could not serve this client, nor will it serve others. */
	unlist(before);
	take_over(bundle, client);
}

static int copy_leases(const struct bundle *bundle, struct client *client)
{
	const struct lease *lease;

	for (lease = bundle->leases; lease; lease = lease->by_bit.next)
		if (!lease_get(client, lease->reference))
			return -ENOMEM;
	return 0;
}

int bundle_split(struct client *client)
{
	struct bundle *bundle = client->bundle;

	if (!bundle)
		return 0;
	if (bundle->n_clients > 1 &&
	    level_room(client->tenant->level, RESOURCE_LEASES) < HASH_CNT(by_bit, bundle->leases))
		return -EDQUOT;
	/* So that what it has besides is not found there. */
	client->bundle = NULL;
	if (copy_leases(bundle, client) < 0) {
		struct lease *lease, *next;

		HASH_ITER(by_bit, client->leases, lease, next)
			if (bundle_has(bundle, lease->bit))
				lease_drop(lease);
		client->bundle = bundle;
		return -ENOMEM;
	}
	/* It has both, and then only its own. */
	enter_client(client);
	leave(bundle, client);
	return 0;
}
