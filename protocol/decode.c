/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Untrusted bytes → checked structs. Every decoder reads through a bounded cursor, requires that the packet ends where the struct does and
 * that reserved fields are zero, and returns 0 or REFUSAL_BAD_PACKET. Lists are checked as a whole, so iterating over one later can't
 * fail.
 */

#include "protocol/layout.h"
#include "protocol/wire.h"

/* Text for printing and comparing: without NUL. */
static const char *take_text(struct cursor *cursor, size_t length)
{
	const char *text = cursor_take(cursor, length);

	if (text && memchr(text, '\0', length))
		cursor->failed = true;
	return text;
}

int decode_message(const void *packet, size_t size, struct message *ret)
{
	struct cursor cursor = cursor_make(packet, size);
	struct wire_header header;
	struct message message = { 0 };

	layout_get(&cursor, LAYOUT_HEADER, &header, sizeof(header));
	if (cursor.failed || header.size != size || header.zero != 0 || header.streams > WIRE_FDS_MAX)
		return REFUSAL_BAD_PACKET;
	message.kind = header.kind;
	message.flags = header.flags;
	message.serial = header.serial;
	message.streams = header.streams;
	for (size_t i = 0; i < header.streams; i++)
		layout_get(&cursor, LAYOUT_NUMBER, &message.stream[i], sizeof(uint32_t));
	if (cursor.failed)
		return REFUSAL_BAD_PACKET;
	message.body = cursor;
	*ret = message;
	return REFUSAL_NONE;
}

int decode_fixed(struct cursor body, uint16_t kind, void *ret)
{
	const struct fixed_body *fixed = &fixed_bodies[kind];
	uint32_t checked = 0;

	if (body.left != fixed->size)
		return REFUSAL_BAD_PACKET;
	layout_get(&body, fixed->layout, ret, fixed->size);
	if (fixed->most < UINT32_MAX)
		memcpy(&checked, (const uint8_t *)ret + fixed->checked, sizeof(checked));
	return checked <= fixed->most ? REFUSAL_NONE : REFUSAL_BAD_PACKET;
}

int decode_welcome(struct cursor body, struct wire_welcome *ret, struct string_item *ret_tenant)
{
	struct wire_welcome welcome;
	const char *tenant;

	layout_get(&body, LAYOUT_WELCOME, &welcome, sizeof(welcome));
	tenant = take_text(&body, welcome.tenant_length);
	if (!cursor_done(&body) || welcome.zero != 0)
		return REFUSAL_BAD_PACKET;
	*ret = welcome;
	*ret_tenant = (struct string_item){ .text = tenant, .length = welcome.tenant_length };
	return REFUSAL_NONE;
}

/*
 * A list of texts, each behind a head of that size, which has the text's length in its second u16: strings and answers. All of it is
 * checked here.
 */
static int decode_texts(struct cursor body, size_t head_size, struct strings *ret)
{
	struct wire_strings head;
	struct cursor walk;

	layout_get(&body, LAYOUT_PAIR, &head, sizeof(head));
	if (body.failed || head.count > WIRE_BATCH_MAX)
		return REFUSAL_BAD_PACKET;
	walk = body;
	for (size_t i = 0; i < head.count; i++) {
		struct wire_string item;
		const char *text;
		uint32_t last;
		size_t zeros;

		layout_get(&walk, LAYOUT_PAIR, &item, sizeof(item));
		cursor_take(&walk, head_size - sizeof(item));
		/* With zeros behind it, to a multiple of four. */
		zeros = padding(item.length);
		text = cursor_take(&walk, item.length + zeros);
		if (!text || item.length == 0)
			continue;
		memcpy(&last, text + item.length + zeros - sizeof(last), sizeof(last));
		if (memchr(text, '\0', item.length) || (zeros > 0 && le32toh(last) >> 8 * (sizeof(last) - zeros) != 0))
			walk.failed = true;
	}
	if (!cursor_done(&walk))
		return REFUSAL_BAD_PACKET;
	*ret = (struct strings){ .flags = head.flags, .count = head.count, .items = body };
	return REFUSAL_NONE;
}

int decode_strings(struct cursor body, struct strings *ret)
{
	return decode_texts(body, sizeof(struct wire_string), ret);
}

/* decode_texts() has checked it. */
static const char *take_checked_text(struct cursor *cursor, size_t length)
{
	return cursor_take(cursor, length + padding(length));
}

bool strings_next(struct strings *strings, struct string_item *ret)
{
	struct wire_string head;

	if (strings->count == 0)
		return false;
	strings->count--;
	layout_get(&strings->items, LAYOUT_PAIR, &head, sizeof(head));
	*ret = (struct string_item){
		.flags = head.flags,
		.length = head.length,
		.text = take_checked_text(&strings->items, head.length),
	};
	return true;
}

int decode_registered(struct cursor body, struct strings *ret)
{
	int r = decode_texts(body, sizeof(struct wire_answer), ret);

	return r == 0 && ret->flags != 0 ? REFUSAL_BAD_PACKET : r;
}

bool answers_next(struct strings *answers, struct answer *ret)
{
	struct wire_answer head;

	if (answers->count == 0)
		return false;
	answers->count--;
	layout_get(&answers->items, LAYOUT_ANSWER, &head, sizeof(head));
	*ret = (struct answer){
		.refusal = head.refusal,
		.bit = head.bit,
		.stream = head.stream,
		.index = head.index,
		.length = head.length,
		.text = take_checked_text(&answers->items, head.length),
	};
	return true;
}

int decode_release(struct cursor body, uint16_t *ret_count, struct cursor *ret_bits)
{
	struct wire_strings head;

	layout_get(&body, LAYOUT_PAIR, &head, sizeof(head));
	if (body.failed || head.flags != 0 || body.left != head.count * sizeof(uint32_t))
		return REFUSAL_BAD_PACKET;
	*ret_count = head.count;
	*ret_bits = body;
	return REFUSAL_NONE;
}

uint32_t release_next(struct cursor *bits)
{
	uint32_t bit;

	layout_get(bits, LAYOUT_NUMBER, &bit, sizeof(bit));
	return bit;
}

int decode_changed(struct cursor body, struct wire_changed *ret, struct cursor *ret_bits)
{
	struct wire_changed changed;

	layout_get(&body, LAYOUT_CHANGED, &changed, sizeof(changed));
	if (body.failed || changed.zero != 0 || body.left != changed.count * sizeof(uint16_t))
		return REFUSAL_BAD_PACKET;
	*ret = changed;
	*ret_bits = body;
	return REFUSAL_NONE;
}

int decode_error(struct cursor body, uint32_t *ret_refusal, struct string_item *ret_sentence)
{
	struct wire_error error;
	const char *sentence;

	layout_get(&body, LAYOUT_PAIR, &error, sizeof(error));
	sentence = take_text(&body, error.length);
	if (!cursor_done(&body) || error.refusal == 0)
		return REFUSAL_BAD_PACKET;
	*ret_refusal = error.refusal;
	*ret_sentence = (struct string_item){ .text = sentence, .length = error.length };
	return REFUSAL_NONE;
}

bool rows_next(struct cursor *rows, struct cursor *ret_row)
{
	uint32_t length;
	const void *row;

	if (rows->left == 0)
		return false;
	layout_get(rows, LAYOUT_NUMBER, &length, sizeof(length));
	row = cursor_take(rows, length);
	if (!row)
		return false;
	*ret_row = cursor_make(row, length);
	return true;
}

int decode_rows(struct cursor body, uint16_t *ret_count, struct cursor *ret_rows)
{
	struct wire_strings head;
	struct cursor walk, row;
	size_t count = 0;

	layout_get(&body, LAYOUT_PAIR, &head, sizeof(head));
	if (body.failed || head.flags != 0)
		return REFUSAL_BAD_PACKET;
	walk = body;
	while (rows_next(&walk, &row))
		count++;
	if (!cursor_done(&walk) || count != head.count)
		return REFUSAL_BAD_PACKET;
	*ret_count = head.count;
	*ret_rows = body;
	return REFUSAL_NONE;
}
