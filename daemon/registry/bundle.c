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

static bool bundle_is_open_to(const struct bundle *bundle, const struct holder *holder)
{
	for (size_t i = 0; i < bundle->n_parts; i++)
		if (!stream_may_serve(bundle->parts[i].stream, holder))
			return false;
	return true;
}

void bundle_key(const struct holder *holder, struct cursor request, struct bundle_key *ret)
{
	ret->uid = holder->uid;
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

	/* A request that an older policy granted might be refused now. */
	return bundle && bundle->generation == holder->registry->generation && bundle_is_open_to(bundle, holder)
		       ? bundle
		       : NULL;
}

static void bundle_unlist(struct bundle *bundle)
{
	if (bundle && bundle->listed)
		HASH_DELETE(by_key, bundle->tenant->bundles, bundle);
	if (bundle)
		bundle->listed = false;
}

static void bundle_free(struct bundle *bundle)
{
	struct lease *lease, *next;

	bundle_unlist(bundle);
	bundle->tenant->bundle_bytes -= bundle->bytes;
	HASH_ITER(by_bit, bundle->leases, lease, next)
		lease_drop(lease);
	free(bundle->parts);
	free(bundle->answer);
	free(bundle);
}

static void part_with(struct holder *holder, const struct bundle *bundle, size_t parts)
{
	for (size_t i = 0; i < parts; i++)
		share_find(holder, bundle->parts[i].stream)->leases -= bundle->parts[i].leases;
}

static void bundle_set(struct holder *holder, struct bundle *bundle)
{
	holder->bundle = bundle;
	holder->bundle_number = bundle ? bundle->lease_number : 0;
}

static void bundle_add_holder(struct bundle *bundle, struct holder *holder)
{
	LIST_INSERT_HEAD(&bundle->holders, holder, in_bundle);
	bundle->n_holders++;
	bundle_set(holder, bundle);
	holder_enter(holder);
}

int bundle_join(struct bundle *bundle, struct holder *holder)
{
	const struct lease *lease;

	for (size_t i = 0; i < bundle->n_parts; i++) {
		struct share *share = share_get(holder, bundle->parts[i].stream);

		if (!share) {
			part_with(holder, bundle, i);
			return -ENOMEM;
		}
		share->leases += bundle->parts[i].leases;
	}
	for (lease = bundle->leases; lease; lease = lease->by_bit.next)
		grant_lease_begins(lease->reference->grant);
	holder->registry->leases += HASH_CNT(by_bit, bundle->leases);
	bundle_add_holder(bundle, holder);
	return 0;
}

/* The last one's are dropped with it. */
static void bundle_drop_holder(struct bundle *bundle, struct holder *holder)
{
	const struct lease *lease;

	LIST_REMOVE(holder, in_bundle);
	part_with(holder, bundle, bundle->n_parts);
	if (--bundle->n_holders == 0) {
		bundle_free(bundle);
		return;
	}
	for (lease = bundle->leases; lease; lease = lease->by_bit.next)
		grant_lease_ends(lease->reference->grant);
	holder->registry->leases -= HASH_CNT(by_bit, bundle->leases);
}

void bundle_leave(struct holder *holder)
{
	struct bundle *bundle = holder->bundle;

	bundle_set(holder, NULL);
	if (bundle)
		bundle_drop_holder(bundle, holder);
}

static struct bundle *bundle_new(struct holder *holder, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *bundle = calloc(1, sizeof(*bundle) + key->size);

	if (!bundle)
		return NULL;
	bundle->tenant = holder->tenant;
	bundle->generation = holder->registry->generation;
	bundle->bytes = key->size + size;
	bundle->tenant->bundle_bytes += bundle->bytes;
	LIST_INIT(&bundle->holders);
	memcpy(bundle->key, &key->uid, key->size);
	bundle->answer = malloc(MAX(size, 1));
	bundle->parts = calloc(MAX(shares_count(holder), 1), sizeof(*bundle->parts));
	if (!bundle->answer || !bundle->parts) {
		bundle_free(bundle);
		return NULL;
	}
	if (size > 0)
		memcpy(bundle->answer, answer, size);
	bundle->answer_size = size;
	return bundle;
}

static void bundle_take_over(struct bundle *bundle, struct holder *holder)
{
	const struct share *share;
	struct lease *lease;

	LIST_FOREACH(share, &holder->shares, in_client)
		if (share->leases > 0)
			bundle->parts[bundle->n_parts++] = (struct bundle_part){ share->stream, share->leases };
	bundle->leases = holder->leases;
	holder->leases = NULL;
	/* So they need not be entered again. */
	bundle->lease_number = holder->lease_number;
	holder->lease_number = ++holder->registry->last_number;
	for (lease = bundle->leases; lease; lease = lease->by_bit.next) {
		lease->holder = NULL;
		lease->bundle = bundle;
	}
	bundle_add_holder(bundle, holder);
}

struct bundle *bundle_restore(struct holder *holder)
{
	static const struct bundle_key none;
	struct bundle *bundle = bundle_new(holder, &none, NULL, 0);

	if (bundle)
		bundle_take_over(bundle, holder);
	return bundle;
}

void bundle_make(struct holder *holder, const struct bundle_key *key, const void *answer, size_t size)
{
	struct bundle *before = bundle_lookup(holder->tenant, key);
	struct bundle *bundle;

	/* Without one each client's leases are its own. */
	if (holder->tenant->bundle_bytes + key->size + size > BUNDLE_BYTES_MAX)
		return;
	bundle = bundle_new(holder, key, answer, size);
	if (!bundle)
		return;
	HASH_ADD_KEYPTR(by_key, holder->tenant->bundles, bundle->key, key->size, bundle);
	bundle->listed = table_added();
	if (!bundle->listed) {
		bundle_free(bundle);
		return;
	}
	/* That one could not serve this client, nor will it serve others. */
	bundle_unlist(before);
	bundle_take_over(bundle, holder);
}

int bundle_split(struct holder *holder)
{
	struct bundle *bundle = holder->bundle;
	const struct lease *lease;

	if (!bundle)
		return 0;
	if (bundle->n_holders > 1 &&
	    level_room(holder->tenant->level, RESOURCE_LEASES) < HASH_CNT(by_bit, bundle->leases))
		return -EDQUOT;
	/* So that lease_get() does not find the bundle's. */
	bundle_set(holder, NULL);
	for (lease = bundle->leases; lease; lease = lease->by_bit.next) {
		if (lease_get(holder, lease->reference))
			continue;
		/* The caller disconnects the client, which drops both. */
		bundle_set(holder, bundle);
		return -ENOMEM;
	}
	/* It has both, and then only its own. */
	holder_enter(holder);
	bundle_drop_holder(bundle, holder);
	return 0;
}
