/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/holder.h"

#include "daemon/ledger/entries.h"
#include "daemon/registry/tenant.h"

void holder_enter(struct holder *holder)
{
	struct entry_client entry = {
		.pid = holder->pid,
		.uid = holder->uid,
		.real_uid = holder->real_uid,
		.greeted = holder->greeted,
		.watching = holder->watching,
		.may_be_root = holder->may_be_root,
	};

	if (!holder->tenant)
		return;
	entry.tenant = holder->tenant->number;
	ledger_enter(holder->registry->ledger, &holder->entry, ENTRY_CLIENT, holder->number, 0, &entry, sizeof(entry),
		     "");
}
