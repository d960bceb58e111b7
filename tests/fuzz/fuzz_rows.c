/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Rows of the control protocol, with nested rows: userevctl does not trust the daemon. */

#include "protocol/row.h"
#include "tests/fuzz/fuzz.h"

static void look_at(struct cursor row, unsigned depth)
{
	struct row_field field;
	size_t bytes = row.left;

	while (row_next(&row, &field) > 0) {
		require(field.length <= bytes);
		if (field.type == ROW_ROWS && depth > 0) {
			struct cursor items = cursor_make(field.value, field.length), item;

			while (row_next_item(&items, &item) > 0)
				look_at(item, depth - 1);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) void *bytes = exactly(data, size);
	struct cursor row = cursor_make(bytes, size);
	char text[16];
	struct row_field field;

	look_at(row, 4);
	row_get_u64(row, "n");
	row_get_string(row, "s", text, sizeof(text));
	require(memchr(text, 0, sizeof(text)));
	if (row_find(row, "rows", &field))
		require(field.length <= size);
	return 0;
}
