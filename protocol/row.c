/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/row.h"

#include <endian.h>

struct field_head {
	uint8_t type;
	uint8_t key_length;
	uint16_t length;
};
_Static_assert(sizeof(struct field_head) == 4, "field");

static void row_put_field(struct packet *packet, enum row_type type, const char *key, const void *value, size_t length)
{
	struct field_head head = {
		.type = (uint8_t)type,
		.key_length = (uint8_t)strlen(key),
		.length = htole16((uint16_t)length),
	};

	packet_put(packet, &head, sizeof(head));
	packet_put(packet, key, head.key_length);
	packet_put(packet, value, length);
}

void row_put_u64(struct packet *packet, const char *key, uint64_t number)
{
	uint64_t wire = htole64(number);

	row_put_field(packet, ROW_U64, key, &wire, sizeof(wire));
}

void row_put_bool(struct packet *packet, const char *key, bool truth)
{
	uint8_t wire = truth;

	row_put_field(packet, ROW_BOOL, key, &wire, sizeof(wire));
}

void row_put_string(struct packet *packet, const char *key, const char *text)
{
	row_put_field(packet, ROW_STRING, key, text, strnlen(text, UINT16_MAX));
}

void row_put_bytes(struct packet *packet, const char *key, const void *bytes, size_t length)
{
	row_put_field(packet, ROW_BYTES, key, bytes, MIN(length, UINT16_MAX));
}

/* The value's u16 length, in front of key and value, is known only at the end. */
size_t row_begin_rows(struct packet *packet, const char *key)
{
	size_t mark = packet->size;

	row_put_field(packet, ROW_ROWS, key, NULL, 0);
	return mark;
}

static void put_length(struct packet *packet, size_t at, size_t length)
{
	uint16_t wire = htole16((uint16_t)length);

	if (length > UINT16_MAX)
		packet->failed = true;
	if (!packet->failed)
		memcpy(packet->data + at, &wire, sizeof(wire));
}

void row_end_rows(struct packet *packet, size_t mark)
{
	struct field_head head;

	if (packet->failed)
		return;
	memcpy(&head, packet->data + mark, sizeof(head));
	put_length(packet, mark + offsetof(struct field_head, length),
		   packet->size - mark - sizeof(head) - head.key_length);
}

size_t row_begin_item(struct packet *packet)
{
	uint16_t length = 0;
	size_t mark = packet->size;

	packet_put(packet, &length, sizeof(length));
	return mark;
}

void row_end_item(struct packet *packet, size_t mark)
{
	put_length(packet, mark, packet->size - mark - sizeof(uint16_t));
}

static bool has_right_length(const struct row_field *field)
{
	switch (field->type) {
	case ROW_U64:
		return field->length == sizeof(uint64_t);
	case ROW_BOOL:
		return field->length == 1 && field->value[0] <= 1;
	case ROW_STRING:
		return !memchr(field->value, '\0', field->length);
	case ROW_BYTES:
	case ROW_ROWS:
		return true;
	}
	return false;
}

int row_next(struct cursor *row, struct row_field *ret)
{
	struct field_head head;
	struct row_field field;

	if (cursor_done(row))
		return 0;
	cursor_get(row, &head, sizeof(head));
	field = (struct row_field){
		.type = (enum row_type)head.type,
		.key_length = head.key_length,
		.length = le16toh(head.length),
	};
	field.key = cursor_take(row, field.key_length);
	field.value = cursor_take(row, field.length);
	if (row->failed || !has_right_length(&field))
		return -EBADMSG;
	if (field.type == ROW_U64) {
		memcpy(&field.number, field.value, sizeof(field.number));
		field.number = le64toh(field.number);
	} else if (field.type == ROW_BOOL) {
		field.number = field.value[0];
	}
	*ret = field;
	return 1;
}

int row_next_item(struct cursor *rows, struct cursor *ret_row)
{
	uint16_t length;
	const void *row;

	if (cursor_done(rows))
		return 0;
	cursor_get(rows, &length, sizeof(length));
	row = cursor_take(rows, le16toh(length));
	if (!row)
		return -EBADMSG;
	*ret_row = cursor_make(row, le16toh(length));
	return 1;
}

bool row_find(struct cursor row, const char *key, struct row_field *ret)
{
	struct row_field field;

	while (row_next(&row, &field) > 0) {
		if (field.key_length != strlen(key) || memcmp(field.key, key, field.key_length) != 0)
			continue;
		*ret = field;
		return true;
	}
	return false;
}

uint64_t row_get_u64(struct cursor row, const char *key)
{
	struct row_field field;

	return row_find(row, key, &field) ? field.number : 0;
}

void row_get_string(struct cursor row, const char *key, char *ret, size_t size)
{
	struct row_field field;
	size_t length = 0;

	if (row_find(row, key, &field) && field.type == ROW_STRING) {
		length = MIN(field.length, size - 1);
		memcpy(ret, field.value, length);
	}
	ret[length] = '\0';
}
