/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A damaged ledger is read, or refused. If the first byte is odd, header and sizes are corrected, up to an entry that does not fit. */

#include "daemon/ledger/entries.h"
#include "tests/fuzz/fuzz.h"

static void mend(uint8_t *memory, size_t size)
{
	struct ledger_header header = { .version = LEDGER_VERSION };
	struct ledger_entry *entry;

	if (size < sizeof(header))
		return;
	memcpy(header.magic, "userevdL", sizeof(header.magic));
	memcpy(memory, &header, sizeof(header));
	for (size_t at = sizeof(header); size - at >= sizeof(*entry); at += entry->size) {
		entry = (void *)(memory + at);
		entry->data_size %= LEDGER_DATA_MAX + 1;
		entry->size = (uint32_t)(sizeof(*entry) + (entry->data_size + 7) / 8 * 8);
		entry->kind %= ENTRY_KINDS_ + 1;
		if (entry->size > size - at)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) uint64_t *aligned = NULL;
	_cleanup_(ledger_image_deinit) struct ledger_image image = { 0 };
	uint8_t *memory;

	if (size < 1)
		return 0;
	aligned = exactly(data + 1, size - 1);
	memory = (uint8_t *)aligned;
	if (data[0] & 1)
		mend(memory, size - 1);
	if (ledger_parse(memory, size - 1, &image) < 0)
		return 0;
	for (size_t i = 0; i < image.n; i++) {
		const struct ledger_entry *thing = image.items[i].entry;
		struct entry_client entry;

		ledger_get(thing, &entry, sizeof(entry));
		require(ledger_find(&image, thing->kind, thing->a, thing->b) == &image.items[i]);
	}
	return 0;
}
