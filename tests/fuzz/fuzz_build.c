/* SPDX-License-Identifier: GPL-2.0-or-later */

/* "description NUL assignment NUL …": arguments of `userevctl emit`. A payload that is built passes every check. */

#include "protocol/event/record.h"
#include "protocol/protocol.h"
#include "tests/fuzz/fuzz.h"

enum { ASSIGNMENTS_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct description description; /* large */
	_cleanup_(freep) char *text = as_text(data, size);
	const char *assignments[ASSIGNMENTS_MAX], *end = text + size;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	uint8_t payload[512];
	size_t n = 0, payload_size;
	int r;

	if (description_parse(text, strlen(text), &description, &why) != 0)
		return 0;
	for (const char *at = text + strlen(text) + 1; at < end && n < ASSIGNMENTS_MAX; at += strlen(at) + 1)
		assignments[n++] = at;
	why = text_make(sentence, sizeof(sentence));
	r = record_build(&description, assignments, n, payload, sizeof(payload), &payload_size, &why);
	if (r > 0)
		require(why.length > 0);
	if (r != 0)
		return 0;
	require(payload_size <= sizeof(payload));
	require(record_is_valid(&description, payload, payload_size));
	return 0;
}
