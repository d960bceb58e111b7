/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <inttypes.h>

#include "client/userevctl/output.h"
#include "protocol/base/text.h"
#include "protocol/protocol.h"

static void json_separate(struct json *json)
{
	if (json->comma)
		putc(',', json->file);
	json->comma = true;
}

void json_begin(struct json *json, char bracket)
{
	json_separate(json);
	putc(bracket, json->file);
	json->comma = false;
}

void json_end(struct json *json, char bracket)
{
	putc(bracket, json->file);
	json->comma = true;
}

void json_raw(struct json *json, const char *value)
{
	json_separate(json);
	fputs(value, json->file);
}

void json_string(struct json *json, const char *string, size_t length)
{
	/* Strings come out of packets, and no byte becomes more than \u and four digits. */
	static char buffer[WIRE_PACKET_MAX * 6 + 3];
	struct text text = text_make(buffer, sizeof(buffer));

	text_json_string(&text, string, MIN(length, (size_t)WIRE_PACKET_MAX));
	json_raw(json, buffer);
}

void json_key(struct json *json, const char *key, size_t length)
{
	json_string(json, key, length);
	putc(':', json->file);
	json->comma = false;
}

void json_u64(struct json *json, uint64_t number)
{
	json_separate(json);
	fprintf(json->file, "%" PRIu64, number);
}

void json_bool(struct json *json, bool truth)
{
	json_raw(json, truth ? "true" : "false");
}

void json_hex(struct json *json, const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;

	json_separate(json);
	putc('"', json->file);
	for (size_t i = 0; i < length; i++)
		fprintf(json->file, "%02x", byte[i]);
	putc('"', json->file);
}

static void json_value(struct json *json, const struct row_field *field, bool nested);

static void json_fields(struct json *json, struct cursor row, bool nested)
{
	struct row_field field;

	while (row_next(&row, &field) > 0) {
		json_key(json, field.key, field.key_length);
		json_value(json, &field, nested);
	}
}

static void json_object(struct json *json, struct cursor row, bool nested)
{
	json_begin(json, '{');
	json_fields(json, row, nested);
	json_end(json, '}');
}

/* Rows in rows are one level deep: what claims to be deeper is shown as bytes. */
static void json_value(struct json *json, const struct row_field *field, bool nested)
{
	struct cursor rows = cursor_make(field->value, field->length), row;

	switch (field->type) {
	case ROW_U64:
		json_u64(json, field->number);
		return;
	case ROW_BOOL:
		json_bool(json, field->number != 0);
		return;
	case ROW_STRING:
		json_string(json, (const char *)field->value, field->length);
		return;
	case ROW_ROWS:
		if (nested)
			break;
		json_begin(json, '[');
		while (row_next_item(&rows, &row) > 0)
			json_object(json, row, true);
		json_end(json, ']');
		return;
	case ROW_BYTES:
		break;
	}
	json_hex(json, field->value, field->length);
}

void json_row_fields(struct json *json, struct cursor row)
{
	json_fields(json, row, false);
}

void json_row(struct json *json, struct cursor row)
{
	json_object(json, row, false);
}
