/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/holder.h"

void holder_enter(struct holder *holder)
{
	if (holder->tenant)
		ledger_enter(holder->registry->ledger, &holder->entry, ENTRY_CLIENT, holder->number, 0, &holder->known,
			     sizeof(holder->known), "");
}
