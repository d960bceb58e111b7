/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Decoders and encoders are held against each other: whatever a decoder accepts, encoding it again gives the same bytes. So
 * an accepted packet says one thing only, and says it in one way only.
 */

#include <stdio.h>

#include "protocol/layout.h"
#include "protocol/row.h"
#include "protocol/wire.h"
#include "tests/suite.h"

enum { ROOM = 4096, CANARY = 0xa5, STREAMS = 2 };

/* check writes a line for each of its own assertions, so what is said a hundred thousand times is said like this. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

struct kind {
	const char *name;
	uint16_t kind;
	uint8_t streams;
	void (*encode)(struct packet *);		   /* the body, with some of everything in it */
	int (*again)(struct cursor body, struct packet *); /* decodes, and encodes what it found */
};

static const uint32_t streams[STREAMS] = { 0x01020304, 0xfffffffe };

static void say_hello(struct packet *packet)
{
	encode_hello(packet, &(struct wire_hello){ .understands = 0x0123456789abcdef, .needs = 5 });
}

static int hello_again(struct cursor body, struct packet *packet)
{
	struct wire_hello hello;
	int r = decode_hello(body, &hello);

	if (r == 0)
		encode_hello(packet, &hello);
	return r;
}

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
	char path[ROOM];
	int r = decode_welcome(body, &welcome, &tenant);

	if (r != 0)
		return r;
	ck_assert_uint_eq(tenant.length, welcome.tenant_length);
	ck_assert_uint_lt(tenant.length, sizeof(path));
	memcpy(path, tenant.text, tenant.length);
	path[tenant.length] = '\0';
	encode_welcome(packet, &welcome, path);
	return 0;
}

static void say_strings(struct packet *packet)
{
	static const char *const texts[] = { "", "a", "ab", "abc u8 x", "pid\xff\x80" };
	size_t mark = encode_strings(packet, TRACE_ON);

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
	mark = encode_strings(packet, strings.flags);
	while (strings_next(&strings, &item))
		encode_string(packet, item.flags, item.text, item.length);
	encode_count(packet, mark, count);
	return 0;
}

static void say_registered(struct packet *packet)
{
	static const char sentence[] = "field 2: 'long' has no fixed size";
	size_t mark = encode_answers(packet);

	encode_answer(packet, &(struct answer){ .bit = 32767, .stream = 7, .index = 0xffffffff });
	encode_answer(
		packet,
		&(struct answer){ .refusal = REFUSAL_BAD_DESCRIPTION, .text = sentence, .length = strlen(sentence) });
	encode_answer(packet, &(struct answer){ .bit = 1, .text = "name", .length = 4 });
	encode_count(packet, mark, 3);
}

static int registered_again(struct cursor body, struct packet *packet)
{
	struct answers answers;
	struct answer answer;
	uint16_t count;
	size_t mark;
	int r = decode_registered(body, &answers);

	if (r != 0)
		return r;
	count = answers.count;
	mark = encode_answers(packet);
	while (answers_next(&answers, &answer))
		encode_answer(packet, &answer);
	encode_count(packet, mark, count);
	return 0;
}

static void say_release(struct packet *packet)
{
	size_t mark = encode_release(packet);

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
	mark = encode_release(packet);
	for (size_t i = 0; i < count; i++)
		encode_release_bit(packet, release_next(&bits));
	ck_assert(cursor_done(&bits));
	encode_count(packet, mark, count);
	return 0;
}

static void say_released(struct packet *packet)
{
	encode_released(packet, &(struct wire_released){ .released = 0x1234, .not_held = 0xfedc });
}

static int released_again(struct cursor body, struct packet *packet)
{
	struct wire_released released;
	int r = decode_released(body, &released);

	if (r == 0)
		encode_released(packet, &released);
	return r;
}

static void say_account(struct packet *packet)
{
	const struct wire_account account = {
		.events = 1,
		.events_max = 0x01020304,
		.lingering = 2,
		.leases = 3,
		.connections = 4,
		.lost = UINT64_MAX,
		.records = 0x0102030405060708,
		.bad = 5,
	};

	encode_account(packet, &account);
}

static int account_again(struct cursor body, struct packet *packet)
{
	struct wire_account account;
	int r = decode_account(body, &account);

	if (r == 0)
		encode_account(packet, &account);
	return r;
}

static void say_watch(struct packet *packet)
{
	encode_watch(packet, &(struct wire_watch){ .on = 1 });
}

static int watch_again(struct cursor body, struct packet *packet)
{
	struct wire_watch watch;
	int r = decode_watch(body, &watch);

	if (r == 0)
		encode_watch(packet, &watch);
	return r;
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
	ck_assert(cursor_done(&bits));
	encode_count(packet, mark, changed.count);
	return 0;
}

static void say_lost(struct packet *packet)
{
	encode_lost(packet, &(struct wire_lost){ .queue_full = 0x1122334455667788, .too_big = 9 });
}

static int lost_again(struct cursor body, struct packet *packet)
{
	struct wire_lost lost;
	int r = decode_lost(body, &lost);

	if (r == 0)
		encode_lost(packet, &lost);
	return r;
}

static void say_error(struct packet *packet)
{
	encode_error(packet, REFUSAL_HELLO_FIRST, "REGISTER before HELLO");
}

static int error_again(struct cursor body, struct packet *packet)
{
	struct string_item sentence;
	uint32_t refusal;
	char text[ROOM];
	int r = decode_error(body, &refusal, &sentence);

	if (r != 0)
		return r;
	ck_assert_uint_ne(refusal, REFUSAL_NONE);
	ck_assert_uint_lt(sentence.length, sizeof(text));
	memcpy(text, sentence.text, sentence.length);
	text[sentence.length] = '\0';
	encode_error(packet, refusal, text);
	return 0;
}

static void say_rows(struct packet *packet)
{
	size_t mark = encode_rows(packet), row;

	row = encode_row_begin(packet);
	row_put_u64(packet, "pid", 7);
	row_put_string(packet, "comm", "cat");
	encode_row_end(packet, row);
	row = encode_row_begin(packet);
	encode_row_end(packet, row);
	row = encode_row_begin(packet);
	row_put_bool(packet, "on", true);
	encode_row_end(packet, row);
	encode_count(packet, mark, 3);
}

static int rows_again(struct cursor body, struct packet *packet)
{
	struct cursor rows, row;
	uint16_t count;
	size_t mark, found = 0;
	int r = decode_rows(body, &count, &rows);

	if (r != 0)
		return r;
	mark = encode_rows(packet);
	while (rows_next(&rows, &row)) {
		size_t at = encode_row_begin(packet);

		packet_put(packet, row.at, row.left);
		encode_row_end(packet, at);
		found++;
	}
	ck_assert_uint_eq(found, count);
	encode_count(packet, mark, count);
	return 0;
}

static void say_nothing(struct packet *packet _unused_)
{
}

static int nothing_again(struct cursor body, struct packet *packet _unused_)
{
	return decode_empty(body);
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
	{ "ERROR", KIND_ERROR, 0, say_error, error_again },
	{ "ROWS", KIND_ROWS, 0, say_rows, rows_again },
	{ "SYNC", KIND_SYNC, 0, say_nothing, nothing_again },
};

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

/* Decodes as this kind. Whether it was accepted; then it says what the bytes say. */
static bool take(const struct kind *kind, const uint8_t *bytes, size_t size)
{
	/* It ends where its block ends, so that ASan sees who reads on. */
	_cleanup_(freep) uint8_t *block = malloc(1 + size);
	uint8_t *exact = block + 1;
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct message message;
	int r;

	memcpy(exact, bytes, size);
	r = decode_message(exact, size, &message);
	expect(r == REFUSAL_NONE || r == REFUSAL_BAD_PACKET, "%s: %d", kind->name, r);
	if (r != 0)
		return false;
	encode_begin(&packet, message.kind, message.serial, message.flags, message.stream, message.streams);
	r = kind->again(message.body, &packet);
	encode_end(&packet);
	expect(r == REFUSAL_NONE || r == REFUSAL_BAD_PACKET, "%s: %d", kind->name, r);
	if (r != 0)
		return false;
	expect(!packet.failed && packet.size == size && memcmp(buffer, bytes, size) == 0,
	       "%s: what was accepted is not what was said", kind->name);
	return true;
}

static void set_size(uint8_t *packet, size_t size)
{
	uint32_t wire = htole32((uint32_t)size);

	memcpy(packet + offsetof(struct wire_header, size), &wire, sizeof(wire));
}

#define for_each_kind(kind) for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++)

TEST(every_message_comes_back_as_it_was_said)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t size = encode_into(kind, buffer);

		ck_assert_msg(take(kind, buffer, size), "%s", kind->name);
	}
}

TEST(the_header_comes_back_with_its_streams)
{
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct message message;

	encode_begin(&packet, 0xabcd, 0x12345678, 0x9f, streams, STREAMS);
	packet_put(&packet, "body", 4);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(buffer, packet.size, &message), 0);
	ck_assert_uint_eq(message.kind, 0xabcd);
	ck_assert_uint_eq(message.serial, 0x12345678);
	ck_assert_uint_eq(message.flags, 0x9f);
	ck_assert_uint_eq(message.streams, STREAMS);
	ck_assert_mem_eq(message.stream, streams, sizeof(streams));
	ck_assert_uint_eq(message.body.left, 4);
	ck_assert_mem_eq(message.body.at, "body", 4);
}

/* The specification is for other languages and other machines, so one packet is checked byte by byte. */
TEST(the_bytes_are_those_of_the_specification)
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
	mark = encode_strings(&packet, 0);
	encode_string(&packet, REGISTER_MULTI_FORMAT, "p u8 ", 5);
	encode_count(&packet, mark, 1);
	encode_end(&packet);
	ck_assert_uint_eq(packet.size, sizeof(expected));
	ck_assert_mem_eq(buffer, expected, sizeof(expected));
}

TEST(no_truncated_message_is_accepted)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t whole = encode_into(kind, buffer);

		for (size_t size = 0; size < whole; size++)
			expect(!take(kind, buffer, size), "%s of %zu bytes, cut to %zu", kind->name, whole, size);
	}
}

/* Every byte of a message is needed, even if the header is made to fit. */
TEST(truncated_message_of_right_size_is_refused)
{
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM];
		size_t whole = encode_into(kind, buffer);

		for (size_t size = sizeof(struct wire_header); size < whole; size++) {
			set_size(buffer, size);
			expect(!take(kind, buffer, size), "%s of %zu bytes, cut to %zu", kind->name, whole, size);
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
	/* So that it is known that both were tried. */
	ck_assert_uint_gt(accepted, 1000);
	ck_assert_uint_gt(refused, 500);
}

TEST(two_flipped_bytes_never_confuse_a_decoder)
{
	srandom(1);
	for_each_kind(kind)
	{
		uint8_t buffer[ROOM], changed[ROOM];
		size_t size = encode_into(kind, buffer);

		for (unsigned i = 0; i < 3000; i++) {
			memcpy(changed, buffer, size);
			changed[(size_t)random() % size] = (uint8_t)random();
			changed[(size_t)random() % size] = (uint8_t)random();
			set_size(changed, size);
			take(kind, changed, size);
		}
	}
}

/* The body behind a header. */
#define BODY sizeof(struct wire_header)

static const struct kind *find_kind(uint16_t number)
{
	for_each_kind(kind) if (kind->kind == number) return kind;
	ck_abort_msg("no kind %u", number);
}

static bool accepts_with(uint16_t number, size_t at, uint8_t byte)
{
	const struct kind *kind = find_kind(number);
	uint8_t buffer[ROOM];
	size_t size = encode_into(kind, buffer);

	ck_assert_uint_lt(at, size);
	buffer[at] = byte;
	return take(kind, buffer, size);
}

TEST(reserved_fields_must_be_zero)
{
	static const struct {
		uint16_t kind;
		size_t at;
		size_t size;
	} reserved[] = {
		{ KIND_HELLO, offsetof(struct wire_header, zero), 4 },
		{ KIND_QUERY, offsetof(struct wire_header, zero), 4 },
		{ KIND_WELCOME, BODY + offsetof(struct wire_welcome, zero), 4 },
		{ KIND_REGISTERED, BODY + STREAMS * sizeof(uint32_t) + offsetof(struct wire_strings, flags), 2 },
		{ KIND_RELEASE, BODY + offsetof(struct wire_strings, flags), 2 },
		{ KIND_ACCOUNT, BODY + offsetof(struct wire_account, zero), 4 },
		{ KIND_CHANGED, BODY + offsetof(struct wire_changed, zero), 2 },
		{ KIND_ROWS, BODY + offsetof(struct wire_strings, flags), 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		for (size_t at = reserved[i].at; at < reserved[i].at + reserved[i].size; at++) {
			ck_assert(accepts_with(reserved[i].kind, at, 0));
			ck_assert_msg(!accepts_with(reserved[i].kind, at, 1), "%u at %zu", reserved[i].kind, at);
			ck_assert_msg(!accepts_with(reserved[i].kind, at, 0x80), "%u at %zu", reserved[i].kind, at);
		}
}

/* REGISTER's strings here are "", "a", "ab", "abc u8 x" and five bytes: the second has three bytes of padding. */
TEST(padding_must_be_zero)
{
	const size_t second = BODY + sizeof(struct wire_strings) + 2 * sizeof(struct wire_string);

	ck_assert(accepts_with(KIND_REGISTER, second, 'b'));
	for (size_t at = second + 1; at < second + 4; at++) {
		ck_assert(accepts_with(KIND_REGISTER, at, 0));
		ck_assert(!accepts_with(KIND_REGISTER, at, 'x'));
	}
}

TEST(text_has_no_nul_inside)
{
	const size_t first_string = BODY + sizeof(struct wire_strings) + 2 * sizeof(struct wire_string);
	const size_t sentence =
		BODY + STREAMS * sizeof(uint32_t) + sizeof(struct wire_strings) + 2 * sizeof(struct wire_answer) + 5;

	ck_assert(!accepts_with(KIND_REGISTER, first_string, '\0'));
	ck_assert(!accepts_with(KIND_WELCOME, BODY + sizeof(struct wire_welcome), '\0'));
	ck_assert(!accepts_with(KIND_ERROR, BODY + sizeof(struct wire_error) + 3, '\0'));
	ck_assert(accepts_with(KIND_REGISTERED, sentence, 'x'));
	ck_assert(!accepts_with(KIND_REGISTERED, sentence, '\0'));
}

TEST(counts_that_lie_are_refused)
{
	static const struct {
		size_t at;
		uint16_t kind;
		uint8_t truth;
	} counts[] = {
		{ BODY, KIND_REGISTER, 5 }, { BODY + STREAMS * sizeof(uint32_t), KIND_REGISTERED, 3 },
		{ BODY, KIND_RELEASE, 3 },  { BODY + offsetof(struct wire_changed, count), KIND_CHANGED, 3 },
		{ BODY, KIND_ROWS, 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		for (unsigned count = 0; count <= UINT8_MAX; count++)
			ck_assert_msg(accepts_with(counts[i].kind, counts[i].at, (uint8_t)count) ==
					      (count == counts[i].truth),
				      "%u with a count of %u", counts[i].kind, count);
		ck_assert(!accepts_with(counts[i].kind, counts[i].at + 1, 0xff));
	}
}

TEST(an_error_has_a_reason_and_a_switch_two_positions)
{
	ck_assert(!accepts_with(KIND_ERROR, BODY, REFUSAL_NONE));
	ck_assert(accepts_with(KIND_ERROR, BODY, 200));
	ck_assert(accepts_with(KIND_WATCH, BODY, 0));
	ck_assert(!accepts_with(KIND_WATCH, BODY, 2));
	ck_assert(!accepts_with(KIND_WATCH, BODY + 3, 1));
}

TEST(a_message_names_eight_streams_and_not_nine)
{
	static const uint32_t many[WIRE_FDS_MAX + 1];
	uint8_t buffer[ROOM];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct message message;

	encode_begin(&packet, KIND_REGISTERED, 1, 0, many, WIRE_FDS_MAX);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(buffer, packet.size, &message), 0);
	ck_assert_uint_eq(message.streams, WIRE_FDS_MAX);
	encode_begin(&packet, KIND_REGISTERED, 1, 0, many, WIRE_FDS_MAX + 1);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(buffer, packet.size, &message), REFUSAL_BAD_PACKET);
}

static uint8_t large[WIRE_PACKET_MAX];

static int decode_n_strings(size_t n)
{
	struct packet packet = packet_make(large, sizeof(large));
	struct message message;
	struct strings strings;
	size_t mark;

	encode_begin(&packet, KIND_REGISTER, 1, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	for (size_t i = 0; i < n; i++)
		encode_string(&packet, 0, "a", 1);
	encode_count(&packet, mark, (uint16_t)n);
	encode_end(&packet);
	ck_assert_int_eq(decode_message(large, packet.size, &message), 0);
	return decode_strings(message.body, &strings);
}

static int decode_n_answers(size_t n, size_t sentence)
{
	char text[WIRE_SENTENCE_MAX + 100];
	struct packet packet = packet_make(large, sizeof(large));
	struct message message;
	struct answers answers;
	size_t mark;

	memset(text, 'x', sizeof(text));
	encode_begin(&packet, KIND_REGISTERED, 1, 0, streams, 1);
	mark = encode_answers(&packet);
	for (size_t i = 0; i < n; i++)
		encode_answer(&packet,
			      &(struct answer){ .refusal = REFUSAL_TROUBLE, .text = text, .length = sentence });
	encode_count(&packet, mark, (uint16_t)n);
	encode_end(&packet);
	ck_assert(!packet.failed);
	ck_assert_int_eq(decode_message(large, packet.size, &message), 0);
	return decode_registered(message.body, &answers);
}

TEST(a_batch_has_512_items_and_not_513)
{
	ck_assert_int_eq(decode_n_strings(0), 0);
	ck_assert_int_eq(decode_n_strings(WIRE_BATCH_MAX), 0);
	ck_assert_int_eq(decode_n_strings(WIRE_BATCH_MAX + 1), REFUSAL_BAD_PACKET);
	ck_assert_int_eq(decode_n_answers(WIRE_BATCH_MAX, 0), 0);
	ck_assert_int_eq(decode_n_answers(WIRE_BATCH_MAX + 1, 0), REFUSAL_BAD_PACKET);
}

TEST(batch_of_longest_refusals_fits)
{
	ck_assert_int_eq(decode_n_answers(WIRE_BATCH_MAX, WIRE_SENTENCE_MAX), 0);
	/* A longer sentence is cut by the encoder, so that this holds for any. */
	ck_assert_int_eq(decode_n_answers(WIRE_BATCH_MAX, WIRE_SENTENCE_MAX + 100), 0);
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
		mark = encode_strings(&packet, 0);
		encode_string(&packet, 0, text, length);
		encode_count(&packet, mark, 1);
		encode_end(&packet);
		ck_assert(packet.failed == (length > UINT16_MAX));
	}
}

TEST(encoder_without_room_fails)
{
	for_each_kind(kind)
	{
		uint8_t whole[ROOM];
		size_t size = encode_into(kind, whole);

		for (size_t room = 0; room <= size; room++) {
			/* For ASan the block ends where the room does; for us a canary stands behind it. */
			_cleanup_(freep) uint8_t *block = malloc(1 + room);
			uint8_t guarded[ROOM];
			struct packet packets[] = { packet_make(block + 1, room), packet_make(guarded, room) };

			memset(guarded, CANARY, sizeof(guarded));
			for (size_t i = 0; i < ARRAY_SIZE(packets); i++) {
				encode(kind, &packets[i]);
				expect(packets[i].failed == (room < size), "%s in %zu of %zu bytes", kind->name, room,
				       size);
				expect(packets[i].size <= room, "%s", kind->name);
			}
			for (size_t at = room; at < sizeof(guarded); at++)
				expect(guarded[at] == CANARY, "%s wrote outside of %zu bytes", kind->name, room);
		}
	}
}

TEST(a_packet_that_failed_begins_afresh)
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

TEST(lists_end_and_go_on_ending)
{
	struct string_item item;
	struct answer answer;
	struct strings strings = { 0 };
	struct answers answers = { 0 };
	struct cursor rows = { 0 }, bits = { 0 }, row;

	ck_assert(!strings_next(&strings, &item));
	ck_assert(!answers_next(&answers, &answer));
	ck_assert(!rows_next(&rows, &row));
	ck_assert_uint_eq(release_next(&bits), 0);
	ck_assert(bits.failed);
	ck_assert_uint_eq(release_next(&bits), 0);
}

TEST(layouts_have_the_sizes_of_their_structs)
{
	static const struct {
		const char *layout;
		size_t size;
	} layouts[] = {
		{ LAYOUT_HEADER, sizeof(struct wire_header) },	 { LAYOUT_HELLO, sizeof(struct wire_hello) },
		{ LAYOUT_WELCOME, sizeof(struct wire_welcome) }, { LAYOUT_ANSWER, sizeof(struct wire_answer) },
		{ LAYOUT_ACCOUNT, sizeof(struct wire_account) }, { LAYOUT_CHANGED, sizeof(struct wire_changed) },
		{ LAYOUT_LOST, sizeof(struct wire_lost) },	 { LAYOUT_PAIR, sizeof(struct wire_error) },
		{ LAYOUT_NUMBER, sizeof(struct wire_watch) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		size_t sum = 0;

		for (const char *at = layouts[i].layout; *at; at++)
			sum += (size_t)(*at - '0');
		ck_assert_uint_eq(sum, layouts[i].size);
		ck_assert_uint_le(sum, LAYOUT_BYTES_MAX);
	}
}
