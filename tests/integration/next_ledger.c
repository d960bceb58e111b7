/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ledger of a future version, in place of the daemon's own: its number is higher, and a client's entry has a new field at its end.
 * The log says what that field contains.
 */

#define LEDGER_VERSION 3
#define ledger_enter   ledger_enter_as_it_is
#define ledger_get     ledger_get_as_it_is
#include "daemon/ledger/ledger.c" /* NOLINT(bugprone-suspicious-include): the same source under other names */
#undef ledger_enter
#undef ledger_get

#include "daemon/ledger/entries.h"
#include "daemon/process/log.h"

void ledger_enter(struct ledger *, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, const void *data,
		  size_t size);
void ledger_get(const struct ledger_entry *, void *ret, size_t size);

struct next_client {
	struct entry_client client;
	uint64_t more; /* the client's number; 0: written by the version before */
};

void ledger_enter(struct ledger *ledger, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, const void *data,
		  size_t size)
{
	struct next_client entry = { .more = a };

	if (kind == ENTRY_CLIENT) {
		memcpy(&entry.client, data, size);
		data = &entry;
		size = sizeof(entry);
	}
	ledger_enter_as_it_is(ledger, place, kind, a, b, data, size);
}

static void log_new_field(const struct ledger_entry *thing)
{
	struct next_client entry;

	ledger_get_as_it_is(thing, &entry, sizeof(entry));
	if (entry.more == 0)
		log_notice("client %llu: the entry's new field is zero", (unsigned long long)thing->a);
	else if (entry.more == thing->a)
		log_notice("client %llu: the entry's new field is there", (unsigned long long)thing->a);
	else
		log_error("client %llu: the entry's new field is %#llx", (unsigned long long)thing->a,
			  (unsigned long long)entry.more);
}

void ledger_get(const struct ledger_entry *thing, void *ret, size_t size)
{
	ledger_get_as_it_is(thing, ret, size);
	if (thing->kind == ENTRY_CLIENT)
		log_new_field(thing);
}
