/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/lease.h"

#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/event.h"
#include "daemon/reference.h"
#include "daemon/stream.h"

struct lease *lease_by_bit(struct client *client, uint32_t bit)
{
	struct lease *lease;

	HASH_FIND(by_bit, client->leases, &bit, sizeof(bit), lease);
	return lease;
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
	HASH_ADD(by_bit, client->leases, bit, sizeof(lease->bit), lease);
	if (!table_added()) {
		free(lease);
		return NULL;
	}
	reference->stream->live += LIST_EMPTY(&reference->leases);
	LIST_INSERT_HEAD(&reference->leases, lease, in_reference);
	share->leases++;
	grant_lease_begins(reference->grant);
	client->daemon->leases++;
	return lease;
}

void lease_drop(struct lease *lease)
{
	HASH_DELETE(by_bit, lease->client->leases, lease);
	LIST_REMOVE(lease, in_reference);
	lease->reference->stream->live -= LIST_EMPTY(&lease->reference->leases);
	share_find(lease->client, lease->reference->stream)->leases--;
	grant_lease_ends(lease->reference->grant);
	lease->client->daemon->leases--;
	free(lease);
}

struct reference *lease_release(struct lease *lease)
{
	struct reference *reference = lease->reference;

	lease_drop(lease);
	return LIST_EMPTY(&reference->leases) ? reference : NULL;
}
