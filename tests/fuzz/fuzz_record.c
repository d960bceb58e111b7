/* SPDX-License-Identifier: GPL-2.0-or-later */

/* "description NUL payload": records of clients, checked and printed. */

#include "protocol/event/record.h"
#include "protocol/protocol.h"
#include "tests/fuzz/fuzz.h"

static void show(const struct description *description, const void *payload, size_t size)
{
	static char buffer[1 << 18];
	struct text text = text_make(buffer, sizeof(buffer));

	record_to_text(description, payload, size, &text);
	/* It goes to terminals. */
	for (size_t i = 0; i < text.length && i < sizeof(buffer); i++)
		require(buffer[i] != '\033' && buffer[i] != '\n' && buffer[i] != '\r');
	text = text_make(buffer, sizeof(buffer));
	record_to_json(description, payload, size, &text);
	require(buffer[0] == '{');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct description description; /* large */
	_cleanup_(freep) void *payload = NULL;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	size_t length = nul ? (size_t)(nul - data) : 0;

	if (!nul || description_parse((const char *)data, length, &description, &why) != 0)
		return 0;
	size -= length + 1;
	payload = exactly(nul + 1, size);
	if (record_is_valid(&description, payload, size))
		show(&description, payload, size);
	return 0;
}
