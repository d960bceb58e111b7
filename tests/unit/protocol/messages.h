/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Every message, as an example and as a round trip: a decoded packet, encoded again, has to give the same bytes. So an accepted packet has
 * one meaning, and that meaning has one packet. Unit tests and the fuzzer use the same table.
 */

#include "protocol/row.h"
#include "protocol/wire.h"

enum { STREAMS = 2 };

struct kind {
	const char *name;
	uint16_t kind;
	uint8_t streams;
	void (*encode)(struct packet *);		   /* an example of the body, with every feature */
	int (*again)(struct cursor body, struct packet *); /* decodes, and encodes what it found */
};

static const uint32_t streams[STREAMS] = { 0x01020304, 0xfffffffe };

/* A message of one struct. */
#define FIXED(name, kind, ...)                                                                                         \
	static void say_##name(struct packet *packet)                                                                  \
	{                                                                                                              \
		encode_fixed(packet, kind, &(struct wire_##name){ __VA_ARGS__ });                                      \
	}                                                                                                              \
	static int name##_again(struct cursor body, struct packet *packet)                                             \
	{                                                                                                              \
		struct wire_##name found;                                                                              \
		int r = decode_fixed(body, kind, &found);                                                              \
                                                                                                                       \
		if (r == 0)                                                                                            \
			encode_fixed(packet, kind, &found);                                                            \
		return r;                                                                                              \
	}

FIXED(hello, KIND_HELLO, .understands = 0x0123456789abcdef, .needs = 5)
FIXED(released, KIND_RELEASED, .released = 0x1234, .not_held = 0xfedc)
FIXED(account, KIND_ACCOUNT, .events = 1, .events_max = 0x01020304, .lingering = 2, .leases = 3, .connections = 4,
      .lost = UINT64_MAX, .records = 0x0102030405060708, .bad = 5)
FIXED(watch, KIND_WATCH, .on = 1)
FIXED(traced, KIND_TRACED, .trace = 3)
FIXED(lost, KIND_LOST, .queue_full = 0x1122334455667788, .too_big = 9)

static void say_welcome(struct packet *packet)
{
	const struct wire_welcome welcome = {
		.features = UINT64_MAX - 1,
		.page_bytes = WIRE_PAGE_BYTES,
		.page_bits = WIRE_PAGE_BITS,
		.payload_max = WIRE_PAYLOAD_MAX,
		.packet_max = WIRE_PACKET_MAX,
		.batch_max = WIRE_BATCH_MAX,
		.events_max = 0xfedcba98,
		.backend = BACKEND_ENABLE_ADDRESS,
	};

	encode_welcome(packet, &welcome, "/machine.slice/a.scope");
}

static int welcome_again(struct cursor body, struct packet *packet)
{
	struct wire_welcome welcome;
	struct string_item tenant;
	char path[WIRE_PACKET_MAX + 1];
	int r = decode_welcome(body, &welcome, &tenant);

	if (r != 0)
		return r;
	memcpy(path, tenant.text, tenant.length);
	path[tenant.length] = '\0';
	encode_welcome(packet, &welcome, path);
	return 0;
}

static void say_strings(struct packet *packet)
{
	static const char *const texts[] = { "", "a", "ab", "abc u8 x", "pid\xff\x80" };
	size_t mark = encode_list(packet, TRACE_ON);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		encode_string(packet, (uint16_t)(i * 0x1001), texts[i], strlen(texts[i]));
	encode_count(packet, mark, ARRAY_SIZE(texts));
}

static int strings_again(struct cursor body, struct packet *packet)
{
	struct string_item item;
	struct strings strings;
	uint16_t count;
	size_t mark;
	int r = decode_strings(body, &strings);

	if (r != 0)
		return r;
	count = strings.count;
	mark = encode_list(packet, strings.flags);
	while (strings_next(&strings, &item))
		encode_string(packet, item.flags, item.text, item.length);
	encode_count(packet, mark, count);
	return 0;
}

static void say_registered(struct packet *packet)
{
	static const char sentence[] = "field 2: 'long' has no fixed size";
	size_t mark = encode_list(packet, 0);

	encode_answer(packet, &(struct answer){ .bit = 32767, .stream = 7, .index = 0xffffffff });
	encode_answer(
		packet,
		&(struct answer){ .refusal = REFUSAL_BAD_DESCRIPTION, .text = sentence, .length = strlen(sentence) });
	encode_answer(packet, &(struct answer){ .bit = 1, .text = "name", .length = 4 });
	encode_count(packet, mark, 3);
}

static int registered_again(struct cursor body, struct packet *packet)
{
	struct strings answers;
	struct answer answer;
	uint16_t count;
	size_t mark;
	int r = decode_registered(body, &answers);

	if (r != 0)
		return r;
	count = answers.count;
	mark = encode_list(packet, 0);
	while (answers_next(&answers, &answer))
		encode_answer(packet, &answer);
	encode_count(packet, mark, count);
	return 0;
}

static void say_release(struct packet *packet)
{
	size_t mark = encode_list(packet, 0);

	encode_release_bit(packet, 0);
	encode_release_bit(packet, 0x12345678);
	encode_release_bit(packet, UINT32_MAX);
	encode_count(packet, mark, 3);
}

static int release_again(struct cursor body, struct packet *packet)
{
	struct cursor bits;
	uint16_t count;
	size_t mark;
	int r = decode_release(body, &count, &bits);

	if (r != 0)
		return r;
	mark = encode_list(packet, 0);
	for (size_t i = 0; i < count; i++)
		encode_release_bit(packet, release_next(&bits));
	encode_count(packet, mark, count);
	return 0;
}

static void say_changed(struct packet *packet)
{
	size_t mark = encode_changed(packet, 0x0a0b0c0d);

	encode_changed_bit(packet, 1);
	encode_changed_bit(packet, 32767);
	encode_changed_bit(packet, 0x1234);
	encode_count(packet, mark, 3);
}

static int changed_again(struct cursor body, struct packet *packet)
{
	struct wire_changed changed;
	struct cursor bits;
	size_t mark;
	int r = decode_changed(body, &changed, &bits);

	if (r != 0)
		return r;
	mark = encode_changed(packet, changed.payload_max);
	for (size_t i = 0; i < changed.count; i++) {
		uint16_t bit;

		cursor_get(&bits, &bit, sizeof(bit));
		encode_changed_bit(packet, le16toh(bit));
	}
	encode_count(packet, mark, changed.count);
	return 0;
}

static void say_error(struct packet *packet)
{
	encode_error(packet, REFUSAL_HELLO_FIRST, "REGISTER before HELLO");
}

static int error_again(struct cursor body, struct packet *packet)
{
	struct string_item sentence;
	uint32_t refusal;
	char text[WIRE_PACKET_MAX + 1];
	int r = decode_error(body, &refusal, &sentence);

	if (r != 0)
		return r;
	memcpy(text, sentence.text, sentence.length);
	text[sentence.length] = '\0';
	encode_error(packet, refusal, text);
	return 0;
}

/* A row with one field of each type, the nested rows between others; a row without fields; a row with one. */
static void say_rows(struct packet *packet)
{
	size_t mark = encode_list(packet, 0), row = encode_row_begin(packet), rows, item;

	row_put_u64(packet, "count", 0x0123456789abcdef);
	row_put_bool(packet, "on", true);
	row_put_bool(packet, "off", false);
	row_put_string(packet, "name", "http_request");
	row_put_string(packet, "empty", "");
	rows = row_begin_rows(packet, "holders");
	item = row_begin_item(packet);
	row_put_string(packet, "tenant", "/a.slice");
	row_put_u64(packet, "pid", 12);
	row_end_item(packet, item);
	row_end_item(packet, row_begin_item(packet));
	row_end_rows(packet, rows);
	row_put_bytes(packet, "payload", "\0\1\2", 3);
	encode_row_end(packet, row);
	encode_row_end(packet, encode_row_begin(packet));
	row = encode_row_begin(packet);
	row_put_bool(packet, "on", true);
	encode_row_end(packet, row);
	encode_count(packet, mark, 3);
}

/* 0 or -EBADMSG, also for rows in nested rows. */
static int copy_row(struct cursor row, struct packet *to, bool nested)
{
	static char text[UINT16_MAX + 1];
	struct row_field field;
	int r;

	while ((r = row_next(&row, &field)) > 0) {
		struct cursor items = cursor_make(field.value, field.length), inner;
		char key[UINT8_MAX + 1] = "";
		size_t rows, item;

		memcpy(key, field.key, field.key_length);
		/* A key with a NUL is legal, but row_put_…() can't write it. */
		if (strlen(key) != field.key_length)
			return -EBADMSG;
		switch (field.type) {
		case ROW_U64:
			row_put_u64(to, key, field.number);
			break;
		case ROW_BOOL:
			row_put_bool(to, key, field.number);
			break;
		case ROW_STRING:
			memcpy(text, field.value, field.length);
			text[field.length] = '\0';
			row_put_string(to, key, text);
			break;
		case ROW_BYTES:
			row_put_bytes(to, key, field.value, field.length);
			break;
		case ROW_ROWS:
			rows = row_begin_rows(to, key);
			while ((r = row_next_item(&items, &inner)) > 0) {
				item = row_begin_item(to);
				if (nested || copy_row(inner, to, true) < 0)
					return -EBADMSG;
				row_end_item(to, item);
			}
			if (r < 0)
				return r;
			row_end_rows(to, rows);
		}
	}
	return r;
}

static int rows_again(struct cursor body, struct packet *packet)
{
	struct cursor rows, row;
	uint16_t count;
	size_t mark;
	int r = decode_rows(body, &count, &rows);

	if (r != 0)
		return r;
	mark = encode_list(packet, 0);
	while (rows_next(&rows, &row)) {
		size_t at = encode_row_begin(packet);

		if (copy_row(row, packet, false) < 0)
			return REFUSAL_BAD_PACKET;
		encode_row_end(packet, at);
	}
	encode_count(packet, mark, count);
	return 0;
}

static void say_nothing(struct packet *packet _unused_)
{
}

static int nothing_again(struct cursor body, struct packet *packet _unused_)
{
	return cursor_done(&body) ? 0 : REFUSAL_BAD_PACKET;
}

static const struct kind kinds[] = {
	{ "HELLO", KIND_HELLO, 0, say_hello, hello_again },
	{ "WELCOME", KIND_WELCOME, 0, say_welcome, welcome_again },
	{ "REGISTER", KIND_REGISTER, 0, say_strings, strings_again },
	{ "REGISTERED", KIND_REGISTERED, STREAMS, say_registered, registered_again },
	{ "RELEASE", KIND_RELEASE, 0, say_release, release_again },
	{ "RELEASED", KIND_RELEASED, 1, say_released, released_again },
	{ "QUERY", KIND_QUERY, 0, say_nothing, nothing_again },
	{ "ACCOUNT", KIND_ACCOUNT, 0, say_account, account_again },
	{ "WATCH", KIND_WATCH, 0, say_watch, watch_again },
	{ "CHANGED", KIND_CHANGED, 0, say_changed, changed_again },
	{ "LOST", KIND_LOST, 0, say_lost, lost_again },
	{ "TRACE_OWN", KIND_TRACE_OWN, 0, say_strings, strings_again },
	{ "TRACED", KIND_TRACED, 0, say_traced, traced_again },
	{ "NATIVE", KIND_NATIVE, 0, say_nothing, nothing_again },
	{ "ERROR", KIND_ERROR, 0, say_error, error_again },
	{ "ROWS", KIND_ROWS, 0, say_rows, rows_again },
	{ "SYNC", KIND_SYNC, 0, say_nothing, nothing_again },
};

/* Decodes the packet as this kind and encodes it again. 0, or the refusal. */
static int encode_again(const struct kind *kind, const void *bytes, size_t size, struct packet *packet)
{
	struct message message;
	int r = decode_message(bytes, size, &message);

	if (r != 0)
		return r;
	encode_begin(packet, message.kind, message.serial, message.flags, message.stream, message.streams);
	r = kind->again(message.body, packet);
	encode_end(packet);
	return r;
}
