/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "protocol/layout.h"
#include "tests/suite.h"
#include "tests/unit/protocol/messages.h"

enum { ROOM = 4096 };

/* check writes a line for each of its own assertions: too slow for a hundred thousand. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

static void encode(const struct kind *kind, struct packet *packet)
{
	encode_begin(packet, kind->kind, 0x89abcdef, WIRE_MORE, streams, kind->streams);
	kind->encode(packet);
	encode_end(packet);
}

static size_t encode_into(const struct kind *kind, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, ROOM);

	encode(kind, &packet);
	ck_assert_msg(!packet.failed, "%s", kind->name);
	return packet.size;
}

/* Whether the packet is accepted as this kind; then its round trip must give the same bytes. */
static bool take(const struct kind *kind, const uint8_t *bytes, size_t size)
{
	/* A sanitizer sees each access behind the packet. */
	_cleanup_(freep) uint8_t *block = malloc(1 + size);
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int r = encode_again(kind, memcpy(block + 1, bytes, size), size, &packet);

	expect(r == REFUSAL_NONE || r == REFUSAL_BAD_PACKET, "%s: %d", kind->name, r);
	if (r != 0)
		return false;
	expect(!packet.failed && packet.size == size && memcmp(buffer, bytes, size) == 0,
	       "%s: the round trip gives another packet", kind->name);
	return true;
}

static void set_size(uint8_t *packet, size_t size)
{
	uint32_t wire = htole32((uint32_t)size);

	memcpy(packet + offsetof(struct wire_header, size), &wire, sizeof(wire));
}

#define for_each_kind(kind) for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++)

TEST(every_message_survives_a_round_trip)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t size = encode_into(kind, buffer);

		ck_assert_msg(take(kind, buffer, size), "%s", kind->name);
	}
}

TEST(header_has_at_most_eight_streams)
{
	static const uint32_t many[WIRE_FDS_MAX + 1] = { 0x01020304, 0xfffffffe, 3, 4, 5, 6, 7, 8, 9 };
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct message message;

	encode_begin(&packet, 0xabcd, 0x12345678, 0x9f, many, WIRE_FDS_MAX);
	packet_put(&packet, "body", 4);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(buffer, packet.size, &message), 0);
	ck_assert_uint_eq(message.kind, 0xabcd);
	ck_assert_uint_eq(message.serial, 0x12345678);
	ck_assert_uint_eq(message.flags, 0x9f);
	ck_assert_uint_eq(message.streams, WIRE_FDS_MAX);
	ck_assert_mem_eq(message.stream, many, sizeof(message.stream));
	ck_assert_uint_eq(message.body.left, 4);
	ck_assert_mem_eq(message.body.at, "body", 4);
	encode_begin(&packet, KIND_REGISTERED, 1, 0, many, WIRE_FDS_MAX + 1);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(buffer, packet.size, &message), REFUSAL_BAD_PACKET);
}

/* The specification is for other languages and other machines, so one packet is checked byte by byte. */
TEST(encoded_bytes_match_the_specification)
{
	static const uint8_t expected[] = {
		32,   0,    0,	  0,		      /* size */
		3,    0,			      /* REGISTER */
		0,    0,			      /* flags, streams */
		0xef, 0xcd, 0xab, 0x89,		      /* serial */
		0,    0,    0,	  0,	1,   0, 0, 0, /* one string, no flags */
		2,    0,    5,	  0,		      /* its flags, its length */
		'p',  ' ',  'u',  '8',	' ', 0, 0, 0, /* and its padding */
	};
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	size_t mark;

	encode_begin(&packet, KIND_REGISTER, 0x89abcdef, 0, NULL, 0);
	mark = encode_list(&packet, 0);
	encode_string(&packet, REGISTER_MULTI_FORMAT, "p u8 ", 5);
	encode_count(&packet, mark, 1);
	encode_end(&packet);
	ck_assert_uint_eq(packet.size, sizeof(expected));
	ck_assert_mem_eq(buffer, expected, sizeof(expected));
}

TEST(truncated_message_is_refused)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t whole = encode_into(kind, buffer);

		for (size_t size = 0; size < whole; size++) {
			expect(!take(kind, buffer, size), "%s of %zu bytes, cut to %zu", kind->name, whole, size);
			if (size < sizeof(struct wire_header))
				continue;
			/* Every byte is needed even if the header has the shorter size. */
			set_size(buffer, size);
			expect(!take(kind, buffer, size), "%s of %zu bytes, cut to %zu", kind->name, whole, size);
			set_size(buffer, whole);
		}
	}
}

TEST(nothing_may_follow_a_message)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM] = { 0 };
		size_t size = encode_into(kind, buffer);

		for (size_t more = 1; more <= 8; more++) {
			expect(!take(kind, buffer, size + more), "%s", kind->name);
			set_size(buffer, size + more);
			expect(!take(kind, buffer, size + more), "%s and %zu bytes", kind->name, more);
			set_size(buffer, size);
		}
	}
}

TEST(flipped_bit_is_refused_or_changes_meaning)
{
	size_t accepted = 0, refused = 0;

	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t size = encode_into(kind, buffer);

		for (size_t bit = 0; bit < size * 8; bit++) {
			buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
			*(take(kind, buffer, size) ? &accepted : &refused) += 1;
			buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
	/* Both outcomes were tried. */
	ck_assert_uint_gt(accepted, 1000);
	ck_assert_uint_gt(refused, 500);
}

/* These would survive a round trip. */
TEST(error_without_refusal_or_wrong_switch_is_refused)
{
	static const uint8_t zero[4], unknown[4] = { 200 }, two[4] = { 2 }, large_one[4] = { 0, 0, 0, 1 };
	struct string_item sentence;
	struct wire_watch watch;
	uint32_t refusal;

	ck_assert_int_eq(decode_error(cursor_make(zero, 4), &refusal, &sentence), REFUSAL_BAD_PACKET);
	ck_assert_int_eq(decode_error(cursor_make(unknown, 4), &refusal, &sentence), 0);
	ck_assert_int_eq(decode_fixed(cursor_make(zero, 4), KIND_WATCH, &watch), 0);
	ck_assert_int_eq(decode_fixed(cursor_make(two, 4), KIND_WATCH, &watch), REFUSAL_BAD_PACKET);
	ck_assert_int_eq(decode_fixed(cursor_make(large_one, 4), KIND_WATCH, &watch), REFUSAL_BAD_PACKET);
}

TEST(text_has_no_nul_inside)
{
	static const uint8_t one_string[] = { 1, 0, 0, 0, 0, 0, 3, 0, 'a', '\0', 'b', 0 };
	struct strings strings;

	ck_assert_int_eq(decode_strings(cursor_make(one_string, sizeof(one_string)), &strings), REFUSAL_BAD_PACKET);
}

static uint8_t large[WIRE_PACKET_MAX];

/* A batch of so many descriptions, or answers with sentences of that length. */
static int decode_batch(uint16_t kind, size_t n, size_t sentence)
{
	char text[WIRE_SENTENCE_MAX + 100];
	const struct answer answer = { .refusal = REFUSAL_TROUBLE, .text = text, .length = sentence };
	struct packet packet = packet_make(large, sizeof(large));
	struct message message;
	struct strings strings;
	struct strings answers;
	size_t mark;

	memset(text, 'x', sizeof(text));
	encode_begin(&packet, kind, 1, 0, NULL, 0);
	mark = encode_list(&packet, 0);
	for (size_t i = 0; i < n; i++)
		if (kind == KIND_REGISTER)
			encode_string(&packet, 0, "a", 1);
		else
			encode_answer(&packet, &answer);
	encode_count(&packet, mark, (uint16_t)n);
	encode_end(&packet);
	ck_assert(!packet.failed);
	ck_assert_int_eq(decode_message(large, packet.size, &message), 0);
	return kind == KIND_REGISTER ? decode_strings(message.body, &strings)
				     : decode_registered(message.body, &answers);
}

TEST(batch_has_at_most_512_items)
{
	ck_assert_int_eq(decode_batch(KIND_REGISTER, 0, 0), 0);
	ck_assert_int_eq(decode_batch(KIND_REGISTER, WIRE_BATCH_MAX, 0), 0);
	ck_assert_int_eq(decode_batch(KIND_REGISTER, WIRE_BATCH_MAX + 1, 0), REFUSAL_BAD_PACKET);
	ck_assert_int_eq(decode_batch(KIND_REGISTERED, WIRE_BATCH_MAX, 0), 0);
	ck_assert_int_eq(decode_batch(KIND_REGISTERED, WIRE_BATCH_MAX + 1, 0), REFUSAL_BAD_PACKET);
}

TEST(batch_of_longest_refusals_fits)
{
	ck_assert_int_eq(decode_batch(KIND_REGISTERED, WIRE_BATCH_MAX, WIRE_SENTENCE_MAX), 0);
	/* A longer sentence is cut by the encoder, so that this holds for any. */
	ck_assert_int_eq(decode_batch(KIND_REGISTERED, WIRE_BATCH_MAX, WIRE_SENTENCE_MAX + 100), 0);
}

TEST(long_sentences_are_cut_long_strings_fail)
{
	_cleanup_(freep) char *text = malloc(UINT16_MAX + 2);
	struct packet packet = packet_make(large, sizeof(large));
	struct string_item item;
	struct wire_welcome welcome = { 0 };
	struct message message;
	uint32_t refusal;
	size_t mark;

	memset(text, 'x', UINT16_MAX + 1);
	text[UINT16_MAX + 1] = '\0';

	encode_begin(&packet, KIND_ERROR, 0, 0, NULL, 0);
	encode_error(&packet, REFUSAL_TROUBLE, text);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(large, packet.size, &message), 0);
	ck_assert_int_eq(decode_error(message.body, &refusal, &item), 0);
	ck_assert_uint_eq(item.length, WIRE_SENTENCE_MAX);

	encode_begin(&packet, KIND_WELCOME, 0, 0, NULL, 0);
	encode_welcome(&packet, &welcome, text);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(large, packet.size, &message), 0);
	ck_assert_int_eq(decode_welcome(message.body, &welcome, &item), 0);
	ck_assert_uint_eq(item.length, WIRE_TENANT_MAX);

	for (size_t length = UINT16_MAX; length <= UINT16_MAX + 1; length++) {
		encode_begin(&packet, KIND_REGISTER, 0, 0, NULL, 0);
		mark = encode_list(&packet, 0);
		encode_string(&packet, 0, text, length);
		encode_count(&packet, mark, 1);
		encode_end(&packet);
		ck_assert(packet.failed == (length > UINT16_MAX));
	}
}

/* A sanitizer sees each write behind the room. */
TEST(encoder_without_room_fails)
{
	for_each_kind(kind)
	{
		uint8_t whole[ROOM];
		size_t size = encode_into(kind, whole);

		for (size_t room = 0; room <= size; room++) {
			_cleanup_(freep) uint8_t *block = malloc(1 + room);
			struct packet packet = packet_make(block + 1, room);

			encode(kind, &packet);
			expect(packet.failed == (room < size) && packet.size <= room, "%s in %zu of %zu bytes",
			       kind->name, room, size);
		}
	}
}

TEST(failed_packet_can_begin_again)
{
	uint8_t buffer[20];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_HELLO, 1, 0, NULL, 0);
	say_hello(&packet);
	encode_end(&packet);
	ck_assert(packet.failed);
	encode_begin(&packet, KIND_QUERY, 1, 0, NULL, 0);
	encode_end(&packet);
	ck_assert(!packet.failed);
	ck_assert_uint_eq(packet.size, sizeof(struct wire_header));
}

TEST(layouts_have_the_sizes_of_their_structs)
{
	struct fixed_body layouts[5 + ARRAY_SIZE(fixed_bodies)] = {
		{ .layout = LAYOUT_HEADER, .size = sizeof(struct wire_header) },
		{ .layout = LAYOUT_WELCOME, .size = sizeof(struct wire_welcome) },
		{ .layout = LAYOUT_ANSWER, .size = sizeof(struct wire_answer) },
		{ .layout = LAYOUT_CHANGED, .size = sizeof(struct wire_changed) },
		{ .layout = LAYOUT_PAIR, .size = sizeof(struct wire_error) },
	};

	memcpy(&layouts[5], fixed_bodies, sizeof(fixed_bodies));
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		size_t sum = 0;

		for (const char *at = layouts[i].layout; at && *at; at++)
			sum += (size_t)(*at - '0');
		ck_assert_uint_eq(sum, layouts[i].size);
		ck_assert_uint_le(sum, LAYOUT_BYTES_MAX);
	}
}
