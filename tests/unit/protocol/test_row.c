/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/row.h"
#include "tests/suite.h"

enum { ROOM = 128 };

static struct cursor cursor_of(const struct packet *packet)
{
	return cursor_make(packet->data, packet->size);
}

TEST(encoded_bytes_match_the_header)
{
	static const uint8_t expected[] = {
		'u', 2, 8, 0, 'i', 'd', 1,   2,	  0, 0, 0, 0,	0, 0, 't', 1, 1, 0, 'o',  1,
		's', 1, 2, 0, 'n', 'a', 'b', 'r', 1, 7, 0, 'r', 5, 0, 'b', 0, 1, 0, 0xff,
	};
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	size_t rows, item;

	row_put_u64(&packet, "id", 0x0201);
	row_put_bool(&packet, "o", true);
	row_put_string(&packet, "n", "ab");
	rows = row_begin_rows(&packet, "r");
	item = row_begin_item(&packet);
	row_put_bytes(&packet, "", "\xff", 1);
	row_end_item(&packet, item);
	row_end_rows(&packet, rows);
	ck_assert_uint_eq(packet.size, sizeof(expected));
	ck_assert_mem_eq(buffer, expected, sizeof(expected));
}

TEST(field_is_found_by_its_whole_name)
{
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct row_field field;
	char text[4];

	row_put_u64(&packet, "event", 1);
	row_put_u64(&packet, "events", 2);
	row_put_u64(&packet, "ev", 3);
	row_put_u64(&packet, "ev", 4);
	row_put_string(&packet, "text", "abcdef");
	ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "event"), 1);
	ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "events"), 2);
	ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "ev"), 3);
	ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "even"), 0);
	ck_assert(!row_find(cursor_of(&packet), "", &field));
	row_get_string(cursor_of(&packet), "text", text, sizeof(text));
	ck_assert_str_eq(text, "abc");
	row_get_string(cursor_of(&packet), "event", text, sizeof(text));
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "text"), 0);
	row_get_string(cursor_of(&packet), "none", text, sizeof(text));
	ck_assert_str_eq(text, "");
}

TEST(fields_behind_malformed_field_are_not_found)
{
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct row_field field;

	row_put_u64(&packet, "before", 1);
	row_put_bool(&packet, "broken", true);
	buffer[packet.size - 1] = 2;
	row_put_u64(&packet, "behind", 1);
	ck_assert(row_find(cursor_of(&packet), "before", &field));
	ck_assert(!row_find(cursor_of(&packet), "broken", &field));
	ck_assert(!row_find(cursor_of(&packet), "behind", &field));
}

TEST(types_have_their_lengths)
{
	static const struct {
		uint8_t bytes[16];
		size_t size;
		int expected;
	} rows[] = {
		{ { 'u', 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8 }, 12, 1 },
		{ { 'u', 0, 7, 0, 1, 2, 3, 4, 5, 6, 7 }, 11, -EBADMSG },
		{ { 'u', 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 13, -EBADMSG },
		{ { 't', 0, 1, 0, 0 }, 5, 1 },
		{ { 't', 0, 1, 0, 2 }, 5, -EBADMSG },
		{ { 't', 0, 0, 0 }, 4, -EBADMSG },
		{ { 't', 0, 2, 0, 1, 0 }, 6, -EBADMSG },
		{ { 's', 0, 2, 0, 'a', 'b' }, 6, 1 },
		{ { 's', 0, 2, 0, 'a', 0 }, 6, -EBADMSG },
		{ { 'b', 0, 2, 0, 'a', 0 }, 6, 1 },
		{ { 'r', 0, 0, 0 }, 4, 1 },
		{ { 'x', 0, 0, 0 }, 4, -EBADMSG },
		/* Cut in the value, in the key, in front of both. */
		{ { 's', 1, 2, 0, 'k', 'a' }, 6, -EBADMSG },
		{ { 's', 2, 0, 0, 'k' }, 5, -EBADMSG },
		{ { 's', 0, 0 }, 3, -EBADMSG },
		{ { 0 }, 0, 0 },
		{ { 0, 0, 0, 0 }, 4, -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cursor row = cursor_make(rows[i].bytes, rows[i].size);
		struct row_field field;

		ck_assert_msg(row_next(&row, &field) == rows[i].expected, "row %zu", i);
	}
}

static uint8_t large[4 * UINT16_MAX];
static char text[UINT16_MAX + 2];

TEST(value_is_cut_after_65535_bytes)
{
	memset(text, 'x', sizeof(text) - 1);
	for (size_t length = UINT16_MAX + 1; length >= UINT16_MAX; length--) {
		struct packet packet = packet_make(large, sizeof(large));
		struct row_field field;

		text[length] = '\0';
		row_put_string(&packet, "text", text);
		row_put_bytes(&packet, "bytes", text, length);
		row_put_bool(&packet, "behind", true);
		ck_assert(!packet.failed);
		ck_assert_uint_eq(row_get_u64(cursor_of(&packet), "behind"), 1);
		ck_assert(row_find(cursor_of(&packet), "bytes", &field));
		ck_assert_uint_eq(field.length, UINT16_MAX);
		ck_assert(row_find(cursor_of(&packet), "text", &field));
		ck_assert_uint_eq(field.length, UINT16_MAX);
	}
}

/* Of one item, and of items together. */
TEST(nested_rows_have_at_most_65535_bytes)
{
	for (size_t size = UINT16_MAX; size <= UINT16_MAX + 1; size++) {
		struct packet packet = packet_make(large, sizeof(large));
		size_t item = row_begin_item(&packet), rows;

		packet_put(&packet, text, size);
		row_end_item(&packet, item);
		ck_assert(packet.failed == (size > UINT16_MAX));

		packet = packet_make(large, sizeof(large));
		rows = row_begin_rows(&packet, "rows");
		item = row_begin_item(&packet);
		packet_put(&packet, text, size - sizeof(uint16_t));
		row_end_item(&packet, item);
		row_end_rows(&packet, rows);
		ck_assert(packet.failed == (size > UINT16_MAX));
	}
}

TEST(item_longer_than_its_list_is_refused)
{
	static const uint8_t rows[] = { 2, 0, 'a' };
	struct cursor cursor = cursor_make(rows, sizeof(rows)), row;

	ck_assert_int_eq(row_next_item(&cursor, &row), -EBADMSG);
	cursor = cursor_make(rows, 1);
	ck_assert_int_eq(row_next_item(&cursor, &row), -EBADMSG);
}
