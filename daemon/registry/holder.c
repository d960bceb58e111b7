/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/holder.h"

#include "daemon/ledger/entries.h"
#include "daemon/registry/tenant.h"

void holder_enter(const struct holder *holder)
{
	struct entry_client entry = {
		.pid = holder->pid,
		.uid = holder->uid,
		.real_uid = holder->real_uid,
		.holder = holder->lease_number,
		.bundle = holder->bundle ? holder->bundle->lease_number : 0,
		.greeted = holder->greeted,
		.watching = holder->watching,
		.may_be_root = holder->may_be_root,
	};

	if (!holder->tenant)
		return;
	entry.tenant = holder->tenant->number;
	ledger_enter(holder->registry->ledger, ENTRY_CLIENT, holder->number, 0, &entry, sizeof(entry));
}

void holder_strike(const struct holder *holder)
{
	if (holder->tenant)
		ledger_strike(holder->registry->ledger, ENTRY_CLIENT, holder->number, 0);
}
