/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/lease.h"

#include "daemon/connection/client.h"
#include "daemon/daemon.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/memory.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/bundle.h"

struct lease *lease_by_bit(const struct client *client, uint32_t bit)
{
	struct lease *lease;

	NUMBER_FIND(by_bit, client->leases, bit, lease);
	if (!lease && client->bundle)
		NUMBER_FIND(by_bit, client->bundle->leases, bit, lease);
	return lease;
}

unsigned leases_count(const struct client *client)
{
	return HASH_CNT(by_bit, client->leases) + (client->bundle ? HASH_CNT(by_bit, client->bundle->leases) : 0);
}

struct lease *lease_get(struct client *client, struct reference *reference)
{
	struct lease *lease = lease_by_bit(client, reference->grant->bit);
	struct share *share;

	if (lease)
		return lease;
	share = share_get(client, reference->stream);
	if (!share)
		return NULL;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return NULL;
	lease->client = client;
	lease->reference = reference;
	lease->bit = reference->grant->bit;
	NUMBER_ADD(by_bit, client->leases, bit, lease);
	if (!table_added()) {
		free(lease);
		return NULL;
	}
	reference->stream->live += LIST_EMPTY(&reference->leases);
	/* The first one is the reference's. */
	if (!LIST_EMPTY(&reference->leases))
		quota_hold(&client->tenant->level->own_leases);
	LIST_INSERT_HEAD(&reference->leases, lease, in_reference);
	share->leases++;
	grant_lease_begins(reference->grant);
	client->daemon->leases++;
	enter_lease(lease);
	return lease;
}

void lease_drop(struct lease *lease)
{
	struct reference *reference = lease->reference;

	strike_lease(lease);
	if (lease->client) {
		HASH_DELETE(by_bit, lease->client->leases, lease);
		share_find(lease->client, reference->stream)->leases--;
	} else {
		HASH_DELETE(by_bit, lease->bundle->leases, lease);
	}
	LIST_REMOVE(lease, in_reference);
	if (!LIST_EMPTY(&reference->leases))
		quota_let_go(&reference->stream->tenant->level->own_leases);
	reference->stream->live -= LIST_EMPTY(&reference->leases);
	grant_lease_ends(reference->grant);
	reference->stream->daemon->leases--;
	memory_freed(reference->stream->daemon, sizeof(*lease));
	free(lease);
}

struct reference *lease_release(struct lease *lease)
{
	struct reference *reference = lease->reference;

	lease_drop(lease);
	return LIST_EMPTY(&reference->leases) ? reference : NULL;
}
