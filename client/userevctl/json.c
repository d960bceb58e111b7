/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Why not json-c: it prints DEL, C1 controls and characters that change the direction of the text as they are, and a record
 * could drive the terminal on which it is shown. The escapes of text_json_string() would have to stay, and with them most of
 * this file.
 */

#include <inttypes.h>
#include <stdarg.h>

#include "client/userevctl/output.h"
#include "protocol/base/text.h"
#include "protocol/protocol.h"

enum { DEPTH_MAX = 16 }; /* rows that are deeper are shown as bytes */

void json_begin(struct json *json, char bracket)
{
	if (json->comma)
		putc(',', json->file);
	putc(bracket, json->file);
	json->comma = false;
	json->depth++;
}

void json_end(struct json *json, char bracket)
{
	putc(bracket, json->file);
	json->depth--;
	json->comma = json->depth > 0;
	if (json->depth == 0)
		putc('\n', json->file);
}

void json_raw(struct json *json, const char *format, ...)
{
	va_list arguments;

	if (json->comma)
		putc(',', json->file);
	va_start(arguments, format);
	vfprintf(json->file, format, arguments);
	va_end(arguments);
	json->comma = true;
}

void json_string(struct json *json, const char *string, size_t length)
{
	/* Strings come out of packets, and a byte becomes at most \u and four digits. */
	static char buffer[WIRE_PACKET_MAX * 6 + 3];
	struct text text = text_make(buffer, sizeof(buffer));

	text_json_string(&text, string, MIN(length, (size_t)WIRE_PACKET_MAX));
	json_raw(json, "%s", buffer);
}

void json_put_key(struct json *json, const char *key)
{
	json_string(json, key, strlen(key));
	putc(':', json->file);
	json->comma = false;
}

void json_put_begin(struct json *json, const char *key, char bracket)
{
	json_put_key(json, key);
	json_begin(json, bracket);
}

static void json_field(struct json *json, const struct row_field *field)
{
	struct cursor rows = cursor_make(field->value, field->length), item;

	json_string(json, field->key, field->key_length);
	putc(':', json->file);
	json->comma = false;
	if (field->type == ROW_U64) {
		json_raw(json, "%" PRIu64, field->number);
	} else if (field->type == ROW_BOOL) {
		json_raw(json, field->number != 0 ? "true" : "false");
	} else if (field->type == ROW_STRING) {
		json_string(json, (const char *)field->value, field->length);
	} else if (field->type == ROW_ROWS && json->depth < DEPTH_MAX) {
		json_begin(json, '[');
		while (row_next_item(&rows, &item) > 0)
			json_row(json, item);
		json_end(json, ']');
	} else {
		json_raw(json, "\"");
		for (size_t i = 0; i < field->length; i++)
			fprintf(json->file, "%02x", field->value[i]);
		putc('"', json->file);
	}
}

void json_row_fields(struct json *json, struct cursor row)
{
	struct row_field field;

	while (row_next(&row, &field) > 0)
		json_field(json, &field);
}

void json_row(struct json *json, struct cursor row)
{
	json_begin(json, '{');
	json_row_fields(json, row);
	json_end(json, '}');
}

void json_put_fields(struct json *json, const struct row_field *field)
{
	for (; field->key; field++)
		if (field->type != ROW_STRING || field->value)
			json_field(json, field);
}

void json_put_object(struct json *json, const struct row_field *field)
{
	json_begin(json, '{');
	json_put_fields(json, field);
	json_end(json, '}');
}
