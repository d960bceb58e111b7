/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/lease.h"

#include "daemon/ledger/entries.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

struct reference *lease_by_bit(const struct holder *holder, uint32_t bit)
{
	return id_table_find(&holder->leases, bit);
}

static void lease_enter(struct share *share, const struct reference *reference, bool begins)
{
	const struct holder *holder = share->holder;

	ledger_mark(holder->registry->ledger, &share->leases_entry, ENTRY_LEASES, holder->number,
		    reference->stream->number, reference->index, begins);
}

struct reference *lease_get(struct holder *holder, struct reference *reference)
{
	struct reference *leased = lease_by_bit(holder, (uint32_t)reference->bit);
	struct share *share;

	if (leased)
		return leased;
	/* The share comes last: without a lease it would stay. */
	if (!id_table_add(&holder->leases, reference))
		return NULL;
	share = share_get(holder, reference->stream);
	if (!share) {
		id_table_remove(&holder->leases, reference);
		return NULL;
	}
	/* The first lease is charged with the reference. */
	if (reference->leases++ > 0)
		quota_hold(&holder->tenant->level->own[RESOURCE_LEASES]);
	else
		reference->stream->live++;
	share->leases++;
	grant_lease_begins(reference->grant);
	holder->registry->leases++;
	lease_enter(share, reference, true);
	return reference;
}

bool lease_release(struct holder *holder, struct reference *reference)
{
	struct share *share = share_find(holder, reference->stream);

	id_table_remove(&holder->leases, reference);
	lease_enter(share, reference, false);
	share->leases--;
	if (--reference->leases > 0)
		quota_release(&holder->tenant->level->own[RESOURCE_LEASES]);
	else
		reference->stream->live--;
	grant_lease_ends(reference->grant);
	holder->registry->leases--;
	return reference->leases == 0;
}

void leases_drop(struct holder *holder, unsigned n)
{
	struct reference *reference;

	while (n-- > 0 && (reference = id_table_next(&holder->leases, &holder->leases_dropped)))
		lease_release(holder, reference);
	if (holder->leases.n == 0)
		holder->leases_dropped = 0;
}

void leases_drop_on(struct holder *holder, const struct stream *stream)
{
	struct reference *reference;

	for (uint32_t at = 0; (reference = id_table_next(&holder->leases, &at));)
		if (reference->stream == stream)
			lease_release(holder, reference);
		else
			at++;
}
