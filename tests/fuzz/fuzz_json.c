/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Bytes as JSON: read as an object and as an array, and nothing outside of them. A string that we write is read back unchanged. */

#include "client/userevctl/name/json_reader.h"
#include "protocol/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { ROOM = 8192 * 6 + 3 };

static void read_everywhere(struct json_value value, int depth)
{
	struct json_value array = value, item;
	char string[64];

	json_string_of(value, string, sizeof(string));
	if (depth > 0)
		read_everywhere(json_member(value, "id"), depth - 1);
	for (int i = 0; depth > 0 && i < 8 && json_next(&array, &item); i++) {
		require(item.at >= value.at && item.end <= value.end && item.at < item.end);
		read_everywhere(item, depth - 1);
	}
}

static void write_and_read(const char *data, size_t size)
{
	static char written[ROOM], read[ROOM], again[ROOM];
	struct text first = text_make(written, ROOM), second = text_make(again, ROOM);

	text_json_string(&first, data, size);
	require(!first.cut);
	if (memchr(data, '\0', size))
		return;
	require(json_string_of((struct json_value){ written, written + first.length }, read, ROOM));
	text_json_string(&second, read, strlen(read));
	require(streq(written, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = exactly(data, size);

	read_everywhere((struct json_value){ text, text + size }, 3);
	write_and_read(text, size);
	return 0;
}
