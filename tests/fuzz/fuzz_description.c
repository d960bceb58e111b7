/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Descriptions of clients: the canonical form of an accepted description is its own canonical form. */

#include "protocol/event/description.h"
#include "protocol/protocol.h"
#include "protocol/refusal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct description description, again; /* large */
	_cleanup_(freep) char *text = exactly(data, size);
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r = description_parse(text, size, &description, &why);

	description_is_name(text, size);
	require(!why.cut);
	if (r != 0) {
		require(r == REFUSAL_BAD_DESCRIPTION && why.length > 0);
		return 0;
	}
	require(strlen(description.canonical) <= WIRE_DESCRIPTION_MAX);
	require(description.name_length > 0 && description.name_length <= DESCRIPTION_NAME_MAX);
	require(description_parse(description.canonical, strlen(description.canonical), &again, &why) == 0);
	require(streq(description.canonical, again.canonical));
	require(description.length == strlen(description.canonical));
	require(!strpbrk(description.canonical, "\t:") && !strstr(description.canonical, "  ") &&
		!strstr(description.canonical, " ;") && !strstr(description.canonical, ";;"));
	require(description_parse_canonical(description.canonical, description.length, &again) == 0);
	require(again.n_fields == description.n_fields && again.size == description.size);
	return 0;
}
