/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/lease.h"

#include "daemon/ledger/entries.h"
#include "daemon/process/memory.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

struct lease *lease_by_bit(const struct holder *holder, uint32_t bit)
{
	struct lease *lease;

	NUMBER_FIND(by_bit, holder->leases, bit, lease);
	if (!lease && holder->bundle)
		NUMBER_FIND(by_bit, holder->bundle->leases, bit, lease);
	return lease;
}

unsigned leases_count(const struct holder *holder)
{
	return HASH_CNT(by_bit, holder->leases) + (holder->bundle ? HASH_CNT(by_bit, holder->bundle->leases) : 0);
}

struct lease *lease_get(struct holder *holder, struct reference *reference)
{
	struct lease *lease = lease_by_bit(holder, reference->grant->bit);
	struct share *share;

	if (lease)
		return lease;
	share = share_get(holder, reference->stream);
	if (!share)
		return NULL;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return NULL;
	memory_taken(&holder->registry->memory, sizeof(*lease));
	lease->holder = holder;
	lease->reference = reference;
	lease->bit = reference->grant->bit;
	NUMBER_ADD(by_bit, holder->leases, bit, lease);
	if (!table_added()) {
		free(lease);
		return NULL;
	}
	reference->stream->live += LIST_EMPTY(&reference->leases);
	/* The first lease is charged with the reference. */
	if (!LIST_EMPTY(&reference->leases))
		quota_hold(&holder->tenant->level->own_leases);
	LIST_INSERT_HEAD(&reference->leases, lease, in_reference);
	share->leases++;
	grant_lease_begins(reference->grant);
	holder->registry->leases++;
	ledger_enter(holder->registry->ledger, &lease->entry, ENTRY_LEASE, holder->lease_number,
		     reference->grant->number, &(struct entry_lease){ .stream = reference->stream->number },
		     sizeof(struct entry_lease));
	return lease;
}

void lease_drop(struct lease *lease)
{
	struct reference *reference = lease->reference;
	struct registry *registry = lease->holder->registry;

	ledger_strike(registry->ledger, &lease->entry);
	HASH_DELETE(by_bit, lease->holder->leases, lease);
	share_find(lease->holder, reference->stream)->leases--;
	LIST_REMOVE(lease, in_reference);
	if (!LIST_EMPTY(&reference->leases))
		quota_release(&reference->stream->tenant->level->own_leases);
	reference->stream->live -= LIST_EMPTY(&reference->leases);
	grant_lease_ends(reference->grant);
	registry->leases--;
	memory_freed(&registry->memory, sizeof(*lease));
	free(lease);
}

struct reference *lease_release(struct lease *lease)
{
	struct reference *reference = lease->reference;

	lease_drop(lease);
	return LIST_EMPTY(&reference->leases) ? reference : NULL;
}
