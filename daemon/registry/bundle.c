/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/bundle.h"

#include "daemon/limits.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

void bundle_key(const struct holder *holder, struct cursor request, struct bundle_key *ret)
{
	ret->uid = holder->uid;
	memcpy(ret->request, request.at, request.left);
	ret->size = sizeof(ret->uid) + request.left;
}

static struct bundle *bundle_lookup(const struct tenant *tenant, const struct bundle_key *key)
{
	struct bundle *bundle;

	HASH_FIND(by_key, tenant->bundles, &key->uid, key->size, bundle);
	return bundle;
}

bool bundle_may_serve(const struct holder *holder)
{
	return rules_share_streams(holder->tenant) && !holder->leases && !holder->bundle;
}

struct bundle *bundle_find(const struct holder *holder, const struct bundle_key *key)
{
	struct bundle *bundle = bundle_lookup(holder->tenant, key);
	const struct share *share;

	/* A request that an older policy granted might be refused now. */
	if (!bundle || bundle->generation != holder->registry->generation)
		return NULL;
	LIST_FOREACH(share, &bundle->holder.shares, in_client)
		if (!stream_may_serve(share->stream, holder))
			return NULL;
	return bundle;
}

static void bundle_unlist(struct bundle *bundle)
{
	if (bundle && bundle->listed)
		HASH_DELETE(by_key, bundle->holder.tenant->bundles, bundle);
	if (bundle)
		bundle->listed = false;
}

static void bundle_free(struct bundle *bundle)
{
	struct lease *lease, *next;

	bundle_unlist(bundle);
	bundle->holder.tenant->bundle_bytes -= bundle->bytes;
	HASH_ITER(by_bit, bundle->holder.leases, lease, next)
		lease_drop(lease);
	while (!LIST_EMPTY(&bundle->holder.shares))
		share_free(LIST_FIRST(&bundle->holder.shares));
	free(bundle->answer);
	free(bundle);
}

static void bundle_add_member(struct bundle *bundle, struct holder *holder)
{
	LIST_INSERT_HEAD(&bundle->holder.members, holder, in_bundle);
	bundle->holder.n_members++;
	holder->bundle = &bundle->holder;
	holder_enter(holder);
}

int bundle_join(struct bundle *bundle, struct holder *holder)
{
	const struct share *part;

	LIST_FOREACH(part, &bundle->holder.shares, in_client)
		if (!share_get(holder, part->stream))
			return -ENOMEM;
	LIST_FOREACH(part, &bundle->holder.shares, in_client)
		share_find(holder, part->stream)->leases += part->leases;
	for (const struct lease *lease = bundle->holder.leases; lease; lease = lease->by_bit.next)
		grant_lease_begins(lease->reference->grant);
	holder->registry->leases += HASH_CNT(by_bit, bundle->holder.leases);
	bundle_add_member(bundle, holder);
	return 0;
}

void bundle_leave(struct holder *holder)
{
	struct holder *bundle = steal_pointer(holder->bundle);
	const struct share *part;

	if (!bundle)
		return;
	LIST_REMOVE(holder, in_bundle);
	LIST_FOREACH(part, &bundle->shares, in_client)
		share_find(holder, part->stream)->leases -= part->leases;
	if (--bundle->n_members == 0) {
		bundle_free(container_of(bundle, struct bundle, holder));
		return;
	}
	for (const struct lease *lease = bundle->leases; lease; lease = lease->by_bit.next)
		grant_lease_ends(lease->reference->grant);
	holder->registry->leases -= HASH_CNT(by_bit, bundle->leases);
}

/* It has the client's streams, and no leases yet. */
static struct bundle *bundle_new(struct holder *holder, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *bundle = calloc(1, sizeof(*bundle) + key->size);
	const struct share *share;
	bool is_complete;

	if (!bundle)
		return NULL;
	bundle->holder.registry = holder->registry;
	bundle->holder.tenant = holder->tenant;
	bundle->generation = holder->registry->generation;
	bundle->bytes = key->size + size;
	holder->tenant->bundle_bytes += bundle->bytes;
	memcpy(bundle->key, &key->uid, key->size);
	bundle->answer = malloc(MAX(size, 1));
	bundle->answer_size = size;
	is_complete = bundle->answer;
	if (is_complete)
		memcpy(bundle->answer, answer, size);
	LIST_FOREACH(share, &holder->shares, in_client)
		is_complete &= share->leases == 0 || share_get(&bundle->holder, share->stream);
	if (is_complete)
		return bundle;
	bundle_free(bundle);
	return NULL;
}

static void bundle_take_over(struct bundle *bundle, struct holder *holder)
{
	struct share *part;

	LIST_FOREACH(part, &bundle->holder.shares, in_client)
		part->leases = share_find(holder, part->stream)->leases;
	bundle->holder.leases = steal_pointer(holder->leases);
	/* So they need not be entered again. */
	bundle->holder.lease_number = holder->lease_number;
	holder->lease_number = ++holder->registry->last_number;
	for (struct lease *lease = bundle->holder.leases; lease; lease = lease->by_bit.next)
		lease->holder = &bundle->holder;
	bundle_add_member(bundle, holder);
}

struct bundle *bundle_restore(struct holder *holder)
{
	static const struct bundle_key none;
	struct bundle *bundle = bundle_new(holder, &none, "", 0);

	if (bundle)
		bundle_take_over(bundle, holder);
	return bundle;
}

void bundle_make(struct holder *holder, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *before = bundle_lookup(holder->tenant, key), *bundle = NULL;

	/* Without a bundle each client's leases are its own. */
	if (holder->tenant->bundle_bytes + key->size + size <= BUNDLE_BYTES_MAX)
		bundle = bundle_new(holder, key, answer, size);
	if (!bundle)
		return;
	HASH_ADD_KEYPTR(by_key, holder->tenant->bundles, bundle->key, key->size, bundle);
	bundle->listed = table_added();
	if (!bundle->listed) {
		bundle_free(bundle);
		return;
	}
	/* The older bundle could not serve this client, nor will it serve others. */
	bundle_unlist(before);
	bundle_take_over(bundle, holder);
}

int bundle_split(struct holder *holder)
{
	struct holder *bundle = holder->bundle;
	int r = 0;

	if (!bundle)
		return 0;
	if (bundle->n_members > 1 &&
	    level_room(holder->tenant->level, RESOURCE_LEASES) < HASH_CNT(by_bit, bundle->leases))
		return -EDQUOT;
	/* So that lease_get() does not find the bundle's. After -ENOMEM the caller disconnects the client, which drops both. */
	holder->bundle = NULL;
	for (const struct lease *lease = bundle->leases; lease && r == 0; lease = lease->by_bit.next)
		r = lease_get(holder, lease->reference) ? 0 : -ENOMEM;
	if (r == 0)
		holder_enter(holder);
	holder->bundle = bundle;
	if (r == 0)
		bundle_leave(holder);
	return r;
}
