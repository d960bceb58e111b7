/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bytes from a stranger → checked structs. Every decoder reads through a bounded cursor, wants the packet used up to its
 * last byte and every reserved field zero, and answers 0 or REFUSAL_BAD_PACKET. What is a list is walked once here, so
 * that whoever iterates over it later has nothing left to check.
 */

#include "protocol/wire.h"

static int verdict(bool good)
{
	return good ? REFUSAL_NONE : REFUSAL_BAD_PACKET;
}

/* Text that others will print, compare and pass on: no NUL inside. */
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

	cursor_get(&cursor, &header, sizeof(header));
	if (cursor.failed || le32toh(header.size) != size || header.zero != 0 || header.streams > WIRE_FDS_MAX)
		return REFUSAL_BAD_PACKET;

	message.kind = le16toh(header.kind);
	message.flags = header.flags;
	message.serial = le32toh(header.serial);
	message.streams = header.streams;
	for (size_t i = 0; i < header.streams; i++) {
		cursor_get(&cursor, &message.stream[i], sizeof(uint32_t));
		message.stream[i] = le32toh(message.stream[i]);
	}
	if (cursor.failed)
		return REFUSAL_BAD_PACKET;
	message.body = cursor;
	*ret = message;
	return REFUSAL_NONE;
}

int decode_empty(struct cursor body)
{
	return verdict(cursor_done(&body));
}

int decode_hello(struct cursor body, struct wire_hello *ret)
{
	struct wire_hello hello;

	cursor_get(&body, &hello, sizeof(hello));
	if (!cursor_done(&body))
		return REFUSAL_BAD_PACKET;
	*ret = (struct wire_hello){ .understands = le64toh(hello.understands), .needs = le64toh(hello.needs) };
	return REFUSAL_NONE;
}

int decode_welcome(struct cursor body, struct wire_welcome *ret, struct string_item *ret_tenant)
{
	struct wire_welcome welcome;
	const char *tenant;

	cursor_get(&body, &welcome, sizeof(welcome));
	tenant = take_text(&body, le16toh(welcome.tenant_length));
	if (!cursor_done(&body) || welcome.zero != 0)
		return REFUSAL_BAD_PACKET;
	*ret = (struct wire_welcome){
		.features = le64toh(welcome.features),
		.page_bytes = le32toh(welcome.page_bytes),
		.page_bits = le32toh(welcome.page_bits),
		.payload_max = le32toh(welcome.payload_max),
		.packet_max = le32toh(welcome.packet_max),
		.batch_max = le32toh(welcome.batch_max),
		.events_max = le32toh(welcome.events_max),
		.backend = le16toh(welcome.backend),
		.tenant_length = le16toh(welcome.tenant_length),
	};
	*ret_tenant = (struct string_item){ .text = tenant, .length = ret->tenant_length };
	return REFUSAL_NONE;
}

static void take_padding(struct cursor *cursor, size_t length)
{
	const uint8_t *zeros = cursor_take(cursor, padding(length));

	for (size_t i = 0; zeros && i < padding(length); i++)
		if (zeros[i] != 0)
			cursor->failed = true;
}

static struct string_item take_string(struct cursor *cursor)
{
	struct wire_string head;
	struct string_item item;

	cursor_get(cursor, &head, sizeof(head));
	item = (struct string_item){ .flags = le16toh(head.flags), .length = le16toh(head.length) };
	item.text = take_text(cursor, item.length);
	take_padding(cursor, item.length);
	return item;
}

int decode_strings(struct cursor body, struct strings *ret)
{
	struct wire_strings head;
	struct strings strings;
	struct cursor walk;

	cursor_get(&body, &head, sizeof(head));
	strings = (struct strings){ .flags = le16toh(head.flags), .count = le16toh(head.count), .items = body };
	if (body.failed || strings.count > WIRE_BATCH_MAX)
		return REFUSAL_BAD_PACKET;

	walk = body;
	for (size_t i = 0; i < strings.count; i++)
		take_string(&walk);
	if (!cursor_done(&walk))
		return REFUSAL_BAD_PACKET;
	*ret = strings;
	return REFUSAL_NONE;
}

bool strings_next(struct strings *strings, struct string_item *ret)
{
	if (strings->count == 0)
		return false;
	strings->count--;
	*ret = take_string(&strings->items);
	return true;
}

static struct answer take_answer(struct cursor *cursor)
{
	struct wire_answer head;
	struct answer answer;

	cursor_get(cursor, &head, sizeof(head));
	answer = (struct answer){
		.refusal = le16toh(head.refusal),
		.bit = le32toh(head.bit),
		.stream = le32toh(head.stream),
		.index = le32toh(head.index),
		.length = le16toh(head.length),
	};
	answer.text = take_text(cursor, answer.length);
	take_padding(cursor, answer.length);
	return answer;
}

int decode_registered(struct cursor body, struct answers *ret)
{
	struct wire_registered head;
	struct answers answers;
	struct cursor walk;

	cursor_get(&body, &head, sizeof(head));
	answers = (struct answers){ .count = le16toh(head.count), .items = body };
	if (body.failed || head.zero != 0 || answers.count > WIRE_BATCH_MAX)
		return REFUSAL_BAD_PACKET;

	walk = body;
	for (size_t i = 0; i < answers.count; i++)
		take_answer(&walk);
	if (!cursor_done(&walk))
		return REFUSAL_BAD_PACKET;
	*ret = answers;
	return REFUSAL_NONE;
}

bool answers_next(struct answers *answers, struct answer *ret)
{
	if (answers->count == 0)
		return false;
	answers->count--;
	*ret = take_answer(&answers->items);
	return true;
}

int decode_release(struct cursor body, uint16_t *ret_count, struct cursor *ret_bits)
{
	struct wire_release head;

	cursor_get(&body, &head, sizeof(head));
	if (body.failed || head.zero != 0 || body.left != (size_t)le16toh(head.count) * sizeof(uint32_t))
		return REFUSAL_BAD_PACKET;
	*ret_count = le16toh(head.count);
	*ret_bits = body;
	return REFUSAL_NONE;
}

uint32_t release_next(struct cursor *bits)
{
	uint32_t bit;

	cursor_get(bits, &bit, sizeof(bit));
	return le32toh(bit);
}

int decode_released(struct cursor body, struct wire_released *ret)
{
	struct wire_released released;

	cursor_get(&body, &released, sizeof(released));
	if (!cursor_done(&body))
		return REFUSAL_BAD_PACKET;
	*ret = (struct wire_released){
		.released = le16toh(released.released),
		.not_held = le16toh(released.not_held),
	};
	return REFUSAL_NONE;
}

int decode_account(struct cursor body, struct wire_account *ret)
{
	struct wire_account account;

	cursor_get(&body, &account, sizeof(account));
	if (!cursor_done(&body) || account.zero != 0)
		return REFUSAL_BAD_PACKET;
	*ret = (struct wire_account){
		.events = le32toh(account.events),
		.events_max = le32toh(account.events_max),
		.lingering = le32toh(account.lingering),
		.leases = le32toh(account.leases),
		.connections = le32toh(account.connections),
		.lost = le64toh(account.lost),
		.records = le64toh(account.records),
		.bad = le64toh(account.bad),
	};
	return REFUSAL_NONE;
}

int decode_watch(struct cursor body, struct wire_watch *ret)
{
	struct wire_watch watch;

	cursor_get(&body, &watch, sizeof(watch));
	watch.on = le32toh(watch.on);
	if (!cursor_done(&body) || watch.on > 1)
		return REFUSAL_BAD_PACKET;
	*ret = watch;
	return REFUSAL_NONE;
}

int decode_changed(struct cursor body, struct wire_changed *ret, struct cursor *ret_bits)
{
	struct wire_changed changed;

	cursor_get(&body, &changed, sizeof(changed));
	changed.payload_max = le32toh(changed.payload_max);
	changed.count = le16toh(changed.count);
	if (body.failed || changed.zero != 0 || body.left != changed.count * sizeof(uint16_t))
		return REFUSAL_BAD_PACKET;
	*ret = changed;
	*ret_bits = body;
	return REFUSAL_NONE;
}

int decode_lost(struct cursor body, struct wire_lost *ret)
{
	struct wire_lost lost;

	cursor_get(&body, &lost, sizeof(lost));
	if (!cursor_done(&body))
		return REFUSAL_BAD_PACKET;
	*ret = (struct wire_lost){ .queue_full = le64toh(lost.queue_full), .too_big = le64toh(lost.too_big) };
	return REFUSAL_NONE;
}

int decode_error(struct cursor body, uint32_t *ret_refusal, struct string_item *ret_sentence)
{
	struct wire_error error;
	struct string_item sentence;

	cursor_get(&body, &error, sizeof(error));
	sentence = (struct string_item){ .length = le16toh(error.length) };
	sentence.text = take_text(&body, sentence.length);
	if (!cursor_done(&body) || error.refusal == 0)
		return REFUSAL_BAD_PACKET;
	*ret_refusal = le16toh(error.refusal);
	*ret_sentence = sentence;
	return REFUSAL_NONE;
}

bool rows_next(struct cursor *rows, struct cursor *ret_row)
{
	uint32_t length;
	const void *row;

	if (rows->left == 0)
		return false;
	cursor_get(rows, &length, sizeof(length));
	row = cursor_take(rows, le32toh(length));
	if (!row)
		return false;
	*ret_row = cursor_make(row, le32toh(length));
	return true;
}

int decode_rows(struct cursor body, uint16_t *ret_count, struct cursor *ret_rows)
{
	struct wire_rows head;
	struct cursor walk, row;
	size_t count = 0;

	cursor_get(&body, &head, sizeof(head));
	if (body.failed || head.zero != 0)
		return REFUSAL_BAD_PACKET;
	walk = body;
	while (rows_next(&walk, &row))
		count++;
	if (!cursor_done(&walk) || count != le16toh(head.count))
		return REFUSAL_BAD_PACKET;
	*ret_count = le16toh(head.count);
	*ret_rows = body;
	return REFUSAL_NONE;
}
