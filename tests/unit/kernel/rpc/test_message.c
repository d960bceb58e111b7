/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "kernel/rpc/message.h"
#include "tests/suite.h"

enum { CANARY = 0xa5, MANY = 1000 };

/* check writes a line for each of its own assertions, so what is said a hundred thousand times is said like this. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

static uint8_t buffer[2 * MESSAGE_MAX];

static struct packet packet_new(void)
{
	memset(buffer, CANARY, sizeof(buffer));
	return packet_make(buffer, MESSAGE_MAX);
}

/* One of each kind. */
static const struct kernel_call examples[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 7, .text = "/system.slice/a.service", .fd = -1 },
	{ .op = KERNEL_PAGE_FREE, .page = 7, .fd = -1 },
	{ .op = KERNEL_STREAM_NEW, .page = 7, .stream = UINT32_MAX, .fd = -1 },
	{ .op = KERNEL_STREAM_FREE, .stream = 8, .fd = -1 },
	{ .op = KERNEL_REGISTER,
	  .page = UINT32_MAX,
	  .stream = 9,
	  .flags = KERNEL_PERSIST | KERNEL_MULTI_FORMAT,
	  .text = "event u32 x",
	  .fd = -1 },
	{ .op = KERNEL_REGISTER, .stream = 9, .text = "event", .fd = -1 },
	{ .op = KERNEL_RELEASE, .stream = 9, .index = 10, .fd = -1 },
	{ .op = KERNEL_STILL_OPEN, .stream = 9, .fd = -1 },
	{ .op = KERNEL_CLEAN, .stream = 9, .fd = -1 },
	{ .op = KERNEL_DEPOSIT, .number = UINT64_MAX, .fd = 0 },
	{ .op = KERNEL_DEPOSITED, .number = UINT64_C(1) << 32, .fd = -1 },
	{ .op = KERNEL_STREAM_ADOPT, .page = 7, .stream = 9, .number = INT64_MAX, .fd = -1 },
	{ .op = KERNEL_STREAM_ADOPT, .page = 7, .stream = 10, .number = INT64_MAX, .fd = 0 },
	{ .op = KERNEL_ADOPT, .stream = 9, .text = "event u32 x", .bit = 32767, .index = 4711, .fd = -1 },
};

static bool texts_are_same(const char *one, const char *other)
{
	return streq(one ? one : "", other ? other : "");
}

static void expect_same_call(const struct kernel_call *one, const struct kernel_call *other)
{
	expect(one->op == other->op && one->page == other->page && one->stream == other->stream &&
		       one->flags == other->flags && one->index == other->index && one->bit == other->bit &&
		       one->number == other->number,
	       "numbers");
	expect(texts_are_same(one->text, other->text), "'%s', not '%s'", other->text, one->text);
	expect(other->fd == -1, "fd");
}

static struct message_header header_of(const void *packet, size_t size, enum message_kind kind, struct cursor *ret)
{
	struct message_header header;

	expect(message_read(packet, size, &header, ret), "not a message");
	expect(header.kind == kind, "kind %u, not %u", header.kind, kind);
	return header;
}

/* Of what was read last. */
static bool ret_has_fd[MESSAGE_CALLS_MAX];

/* What the whole packet says, as the keeper reads it: -1, or how many calls. */
static int read_calls(const void *packet, size_t size, struct kernel_call *ret)
{
	static char text[MESSAGE_CALLS_MAX][WIRE_TENANT_MAX + 1];
	struct message_header header;
	struct cursor body;

	if (!message_read(packet, size, &header, &body) || header.kind != MESSAGE_CALLS ||
	    header.count > MESSAGE_CALLS_MAX)
		return -1;
	for (size_t i = 0; i < header.count; i++)
		if (!message_next_call(&body, &ret[i], text[i], &ret_has_fd[i]))
			return -1;
	return cursor_done(&body) ? header.count : -1;
}

/* --- the header --- */

TEST(a_message_says_its_own_size_and_kind)
{
	const struct kernel_facts facts = { .note = "" };
	struct packet packet = packet_new();
	struct message_header header;
	struct cursor body;

	message_put_ready(&packet, &facts);
	for (size_t size = 0; size < 2 * packet.size; size++)
		expect(message_read(buffer, size, &header, &body) == (size == packet.size), "%zu", size);
	for (uint32_t kind = 0; kind <= UINT16_MAX; kind++) {
		header = (struct message_header){ .size = sizeof(header), .kind = (uint16_t)kind };
		memcpy(buffer, &header, sizeof(header));
		expect(message_read(buffer, sizeof(header), &header, &body) ==
			       (kind >= MESSAGE_READY && kind <= MESSAGE_ANSWERS),
		       "kind %u", kind);
	}
}

TEST(the_body_is_what_follows_the_header)
{
	uint8_t raw[sizeof(struct message_header) + 3];
	struct message_header header = { .size = sizeof(raw), .kind = MESSAGE_FAILED, .count = 5 };
	struct cursor body;

	memcpy(raw, &header, sizeof(header));
	ck_assert(message_read(raw, sizeof(raw), &header, &body));
	ck_assert_ptr_eq(body.at, raw + sizeof(header));
	ck_assert_uint_eq(body.left, 3);
	ck_assert_uint_eq(header.count, 5);
}

/* --- calls --- */

TEST(calls_arrive_as_they_were_sent)
{
	struct kernel_call got[ARRAY_SIZE(examples)] = { 0 };
	struct packet packet = packet_new();

	ck_assert_uint_eq(message_put_calls(&packet, examples, ARRAY_SIZE(examples)), ARRAY_SIZE(examples));
	ck_assert(!packet.failed);
	ck_assert_int_eq(read_calls(buffer, packet.size, got), ARRAY_SIZE(examples));
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		expect_same_call(&examples[i], &got[i]);
		expect(ret_has_fd[i] == (examples[i].fd >= 0), "fd of %zu", i);
	}
	ck_assert_uint_eq(buffer[packet.size], CANARY);
}

TEST(texts_of_every_length_are_padded_with_zeros)
{
	static char text[WIRE_TENANT_MAX + 1];

	for (size_t length = 0; length <= WIRE_TENANT_MAX; length++) {
		const struct kernel_call call = { .op = KERNEL_PAGE_NEW, .text = text, .fd = -1 };
		struct packet packet = packet_new();
		struct kernel_call got = { 0 };
		size_t end = sizeof(struct message_header) + sizeof(struct message_call) + length;

		expect(message_put_calls(&packet, &call, 1) == 1, "%zu", length);
		expect(packet.size % 4 == 0 && packet.size >= end && packet.size < end + 4, "%zu", length);
		for (; end < packet.size; end++)
			expect(buffer[end] == 0, "%zu", length);
		expect(read_calls(buffer, packet.size, &got) == 1, "%zu", length);
		expect_same_call(&call, &got);
		if (length < WIRE_TENANT_MAX)
			text[length] = (char)('a' + length % 26);
	}
}

/* As if a packet of that size had come. */
static int read_cut(size_t size, struct kernel_call *ret)
{
	uint8_t *cut = malloc(size + 1); /* exactly as large, so that a sanitizer sees what is read beyond */
	struct message_header header;
	int n;

	memcpy(cut + 1, buffer, size);
	if (size >= sizeof(header)) {
		memcpy(&header, cut + 1, sizeof(header));
		header.size = (uint32_t)size;
		memcpy(cut + 1, &header, sizeof(header));
	}
	n = read_calls(cut + 1, size, ret);
	free(cut);
	return n;
}

TEST(calls_that_end_too_early_or_too_late_are_none)
{
	struct kernel_call got[MESSAGE_CALLS_MAX] = { 0 };
	struct packet packet = packet_new();

	message_put_calls(&packet, examples, ARRAY_SIZE(examples));
	for (size_t size = 0; size < packet.size + 64; size++)
		ck_assert_int_eq(read_cut(size, got), size == packet.size ? (int)ARRAY_SIZE(examples) : -1);
}

TEST(more_or_fewer_calls_than_are_said_are_none)
{
	struct kernel_call got[MESSAGE_CALLS_MAX] = { 0 };
	struct packet packet = packet_new();
	struct message_header header;

	message_put_calls(&packet, examples, ARRAY_SIZE(examples));
	memcpy(&header, buffer, sizeof(header));
	ck_assert_uint_eq(header.count, ARRAY_SIZE(examples));
	for (size_t count = 0; count < 2 * ARRAY_SIZE(examples); count++) {
		header.count = (uint16_t)count;
		memcpy(buffer, &header, sizeof(header));
		ck_assert_int_eq(read_calls(buffer, packet.size, got), count == ARRAY_SIZE(examples) ? (int)count : -1);
	}
}

/* A packet of one call, with that text, however long it is said to be. */
static size_t put_raw_call(struct message_call raw, const char *text, size_t length)
{
	struct packet packet = packet_new();
	struct message_header header = { .kind = MESSAGE_CALLS, .count = 1 };

	packet_put(&packet, &header, sizeof(header));
	packet_put(&packet, &raw, sizeof(raw));
	packet_put_padded(&packet, text, length);
	header.size = (uint32_t)packet.size;
	memcpy(buffer, &header, sizeof(header));
	return packet.size;
}

TEST(unknown_operation_is_refused)
{
	struct kernel_call got = { 0 };

	for (uint32_t op = 0; op <= UINT16_MAX; op++) {
		size_t size = put_raw_call((struct message_call){ .op = (uint16_t)op }, "", 0);

		expect(read_calls(buffer, size, &got) ==
			       (op < KERNEL_OP_MAX_ && !message_op_needs_fd((enum kernel_op)op) ? 1 : -1),
		       "%u", op);
	}
}

TEST(a_call_brings_an_fd_where_it_may_and_where_it_must)
{
	static const uint32_t values[] = { 0, 1, 2, 256, 65536, UINT32_MAX };
	struct kernel_call got = { 0 };

	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++) {
		bool must = op == KERNEL_DEPOSIT || op == KERNEL_PAGE_ADOPT, may = must || op == KERNEL_STREAM_ADOPT;

		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			size_t size =
				put_raw_call((struct message_call){ .op = (uint16_t)op, .has_fd = values[i] }, "", 0);
			bool good = values[i] == 0 ? !must : values[i] == 1 && may;

			expect(read_calls(buffer, size, &got) == (good ? 1 : -1), "%u of %u", values[i], op);
			expect(!good || ret_has_fd[0] == values[i], "%u of %u", values[i], op);
		}
	}
}

TEST(reserved_fields_of_messages_are_zero)
{
	struct kernel_call got = { 0 };

	for (unsigned bit = 0; bit < 32; bit++) {
		size_t size = put_raw_call((struct message_call){ .op = KERNEL_CLEAN, .zero = 1u << bit }, "", 0);

		ck_assert_int_eq(read_calls(buffer, size, &got), -1);
	}
}

TEST(a_text_that_is_longer_than_any_is_refused)
{
	static char text[WIRE_TENANT_MAX + 8];
	struct kernel_call got = { 0 };

	memset(text, 'x', sizeof(text) - 1);
	for (uint32_t length = WIRE_TENANT_MAX - 4; length < sizeof(text); length++) {
		size_t size = put_raw_call((struct message_call){ .text_length = length }, text, length);

		ck_assert_int_eq(read_calls(buffer, size, &got), length <= WIRE_TENANT_MAX ? 1 : -1);
	}
}

TEST(a_text_whose_length_is_a_lie_is_refused)
{
	static const uint32_t lies[] = { 0,
					 5,
					 6,
					 7,
					 8,
					 9,
					 11,
					 12,
					 4095,
					 4096,
					 UINT16_MAX,
					 INT32_MAX,
					 (uint32_t)INT32_MIN,
					 -4096,
					 (uint32_t)-13,
					 (uint32_t)-4,
					 (uint32_t)-3,
					 (uint32_t)-2,
					 UINT32_MAX };
	struct kernel_call got = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		size_t size = put_raw_call((struct message_call){ .text_length = lies[i] }, "four", 4);

		ck_assert_int_eq(read_calls(buffer, size, &got), -1);
	}
}

TEST(a_text_with_a_zero_in_it_is_refused)
{
	struct kernel_call got = { 0 };

	for (size_t at = 0; at < 11; at++) {
		char text[] = "event u32 x";
		size_t size;

		text[at] = '\0';
		size = put_raw_call((struct message_call){ .text_length = 11 }, text, 11);
		ck_assert_int_eq(read_calls(buffer, size, &got), -1);
	}
}

TEST(padding_of_text_must_be_zero)
{
	struct kernel_call got = { 0 };

	for (size_t length = 5; length <= 8; length++) {
		const struct message_call raw = { .op = KERNEL_REGISTER, .text_length = (uint32_t)length };
		size_t size = put_raw_call(raw, "eventful", length);

		ck_assert_int_eq(read_calls(buffer, size, &got), 1);
		for (size_t at = size - padding(length); at < size; at++) {
			buffer[at] = 1;
			ck_assert_int_eq(read_calls(buffer, size, &got), -1);
			buffer[at] = 0;
		}
	}
}

/* What the last text left behind is not the next one's. */
TEST(a_call_without_text_has_an_empty_one)
{
	size_t size = put_raw_call((struct message_call){ .op = KERNEL_REGISTER }, "", 0);
	struct message_header header;
	struct kernel_call got = { 0 };
	struct cursor body;
	char text[WIRE_TENANT_MAX + 1];
	bool has_fd;

	memset(text, CANARY, sizeof(text));
	ck_assert(message_read(buffer, size, &header, &body));
	ck_assert(message_next_call(&body, &got, text, &has_fd));
	ck_assert(!has_fd);
	ck_assert_ptr_eq(got.text, text);
	ck_assert_str_eq(got.text, "");
	ck_assert_int_eq(got.fd, -1);
	ck_assert_int_eq(got.result, 0);
}

/* --- how many calls make a packet --- */

static struct kernel_call many[MANY];

static void fill_many(enum kernel_op op, const char *text)
{
	for (size_t i = 0; i < MANY; i++)
		many[i] = (struct kernel_call){ .op = op, .index = (uint32_t)i, .text = text, .fd = -1 };
}

static size_t put_many(size_t n, size_t capacity)
{
	struct kernel_call got[MESSAGE_CALLS_MAX] = { 0 };
	struct packet packet = packet_new();
	size_t put;

	packet.capacity = capacity;
	put = message_put_calls(&packet, many, n);
	expect(packet.size <= capacity, "%zu bytes of %zu", packet.size, capacity);
	expect(buffer[capacity] == CANARY, "written beyond its end");
	expect(packet.failed == (put == 0), "%zu put", put);
	if (put == 0)
		return 0;
	expect(read_calls(buffer, packet.size, got) == (int)put, "%zu put", put);
	for (size_t i = 0; i < put; i++)
		expect_same_call(&many[i], &got[i]);
	return put;
}

TEST(a_packet_takes_so_many_calls_and_not_one_more)
{
	fill_many(KERNEL_RELEASE, NULL);
	ck_assert_uint_eq(put_many(1, MESSAGE_MAX), 1);
	ck_assert_uint_eq(put_many(MESSAGE_CALLS_MAX - 1, MESSAGE_MAX), MESSAGE_CALLS_MAX - 1);
	ck_assert_uint_eq(put_many(MESSAGE_CALLS_MAX, MESSAGE_MAX), MESSAGE_CALLS_MAX);
	ck_assert_uint_eq(put_many(MESSAGE_CALLS_MAX + 1, MESSAGE_MAX), MESSAGE_CALLS_MAX);
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
}

TEST(a_full_packet_of_the_longest_descriptions_fits)
{
	char text[WIRE_DESCRIPTION_MAX + 1];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fill_many(KERNEL_REGISTER, text);
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
}

TEST(call_that_does_not_fit_is_left)
{
	static const size_t lengths[] = { 0, 1, 4, 511, WIRE_TENANT_MAX };
	static char text[WIRE_TENANT_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t one = sizeof(struct message_call) + lengths[i] + padding(lengths[i]);

		memset(text, 'x', lengths[i]);
		text[lengths[i]] = '\0';
		fill_many(KERNEL_REGISTER, text);
		for (size_t n = 1; n <= 4; n++) {
			size_t exact = sizeof(struct message_header) + n * one;

			for (size_t less = 1; less < 8; less++)
				ck_assert_uint_eq(put_many(MANY, exact - less), n - 1);
			ck_assert_uint_eq(put_many(MANY, exact), n);
			ck_assert_uint_eq(put_many(MANY, exact + one - 1), n);
		}
	}
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), (MESSAGE_MAX - 8) / (40 + WIRE_TENANT_MAX + 1));
}

TEST(a_packet_without_room_for_one_call_has_failed)
{
	fill_many(KERNEL_RELEASE, NULL);
	for (size_t capacity = 0; capacity < sizeof(struct message_header) + sizeof(struct message_call); capacity++)
		ck_assert_uint_eq(put_many(1, capacity), 0);
}

TEST(packet_limits_fds_of_answers)
{
	static const enum kernel_op ops[] = { KERNEL_PAGE_NEW,	 KERNEL_STREAM_NEW,   KERNEL_DEPOSITED,
					      KERNEL_PAGE_FETCH, KERNEL_STREAM_FETCH, KERNEL_DEPOSIT,
					      KERNEL_PAGE_ADOPT, KERNEL_STREAM_ADOPT };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		fill_many(ops[i], NULL);
		for (size_t j = 0; j < MANY; j++)
			many[j].fd = message_op_takes_fd(ops[i]) ? 0 : -1;
		ck_assert_uint_eq(put_many(MESSAGE_FDS_MAX - 1, MESSAGE_MAX), MESSAGE_FDS_MAX - 1);
		ck_assert_uint_eq(put_many(MESSAGE_FDS_MAX, MESSAGE_MAX), MESSAGE_FDS_MAX);
		ck_assert_uint_eq(put_many(MESSAGE_FDS_MAX + 1, MESSAGE_MAX), MESSAGE_FDS_MAX);
	}
}

TEST(calls_without_fd_do_not_count_as_fds)
{
	fill_many(KERNEL_RELEASE, NULL);
	for (size_t i = 0; i < 2 * (MESSAGE_FDS_MAX + 1); i += 2)
		many[i].op = i % 4 ? KERNEL_PAGE_NEW : KERNEL_STREAM_NEW;
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), 2 * MESSAGE_FDS_MAX);
	many[2 * MESSAGE_FDS_MAX].op = KERNEL_RELEASE;
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
}

TEST(fds_of_either_direction_are_counted_for_themselves)
{
	fill_many(KERNEL_DEPOSIT, NULL);
	for (size_t i = 0; i < MANY; i++) {
		many[i].op = i % 2 ? KERNEL_DEPOSIT : KERNEL_DEPOSITED;
		many[i].fd = i % 2 ? 0 : -1;
	}
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), 2 * MESSAGE_FDS_MAX);
	/* Those that bring none are not. */
	fill_many(KERNEL_STREAM_ADOPT, NULL);
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
}

TEST(made_and_fetched_have_fds)
{
	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++) {
		bool makes = op == KERNEL_PAGE_NEW || op == KERNEL_STREAM_NEW;

		ck_assert_int_eq(message_op_makes(op), makes);
		ck_assert_int_eq(message_op_gives_fd(op), makes || op == KERNEL_DEPOSITED || op == KERNEL_PAGE_FETCH ||
								  op == KERNEL_STREAM_FETCH);
	}
}

/* --- answers --- */

static struct packet put_answers(const struct kernel_call *calls, size_t n)
{
	struct packet packet = packet_new();

	message_put_answers(&packet, calls, n);
	ck_assert(!packet.failed);
	return packet;
}

TEST(answers_arrive_as_they_were_sent)
{
	const struct kernel_call sent[] = {
		{ .op = KERNEL_PAGE_NEW, .result = KERNEL_OK, .fd = 3 },
		{ .op = KERNEL_STREAM_NEW, .result = -EMFILE, .fd = -1 },
		{ .op = KERNEL_STREAM_NEW, .result = KERNEL_OK, .number = INT64_MAX, .fd = 0 },
		{ .op = KERNEL_REGISTER, .result = KERNEL_OK, .bit = 32767, .index = UINT32_MAX, .fd = -1 },
		{ .op = KERNEL_STILL_OPEN, .result = KERNEL_E_GONE, .fd = -1 },
		{ .op = KERNEL_CLEAN, .result = INT32_MIN, .fd = -1 },
	};
	struct packet packet = put_answers(sent, ARRAY_SIZE(sent));
	struct cursor body;
	bool has_fd;

	ck_assert_uint_eq(header_of(buffer, packet.size, MESSAGE_ANSWERS, &body).count, ARRAY_SIZE(sent));
	for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
		struct kernel_call call = { .op = sent[i].op, .page = 5, .stream = 6, .text = "mine", .fd = -1 };

		ck_assert(message_next_answer(&body, &call, &has_fd));
		ck_assert_int_eq(call.result, sent[i].result);
		ck_assert_uint_eq(call.bit, sent[i].bit);
		ck_assert_uint_eq(call.index, sent[i].index);
		ck_assert_uint_eq(call.number, sent[i].number);
		ck_assert_int_eq(has_fd, sent[i].fd >= 0);
		/* The rest is the asker's own. */
		ck_assert_int_eq(call.fd, -1);
		ck_assert_uint_eq(call.page + call.stream, 11);
		ck_assert_str_eq(call.text, "mine");
	}
	ck_assert(cursor_done(&body));
}

TEST(a_full_packet_of_answers_fits)
{
	struct packet packet;

	fill_many(KERNEL_RELEASE, NULL);
	packet = put_answers(many, MESSAGE_CALLS_MAX);
	ck_assert_uint_eq(packet.size,
			  sizeof(struct message_header) + MESSAGE_CALLS_MAX * sizeof(struct message_answer));
}

TEST(an_answer_that_ends_too_early_changes_nothing)
{
	const struct kernel_call sent = { .op = KERNEL_REGISTER, .result = 5, .bit = 6, .index = 7, .fd = -1 };
	struct packet packet = put_answers(&sent, 1);

	for (size_t size = sizeof(struct message_header); size < packet.size; size++) {
		struct kernel_call call = { .op = KERNEL_REGISTER, .result = 1, .bit = 2, .index = 3, .fd = -1 };
		struct cursor body =
			cursor_make(buffer + sizeof(struct message_header), size - sizeof(struct message_header));
		bool has_fd = true;

		ck_assert(!message_next_answer(&body, &call, &has_fd));
		ck_assert_int_eq(call.result, 1);
		ck_assert_uint_eq(call.bit, 2);
		ck_assert_uint_eq(call.index, 3);
		ck_assert(has_fd);
		/* Nor is there anything behind it. */
		ck_assert(!message_next_answer(&body, &call, &has_fd));
	}
}

TEST(answer_has_fd_only_if_expected)
{
	static const uint32_t values[] = { 0, 1, 2, 256, 65536, UINT32_MAX };

	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++) {
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			const struct message_answer raw = { .has_fd = values[i] };
			struct cursor body = cursor_make(&raw, sizeof(raw));
			struct kernel_call call = { .op = op, .result = 4711 };
			bool has_fd = false, good = values[i] == 0 || (values[i] == 1 && message_op_gives_fd(op));

			ck_assert_int_eq(message_next_answer(&body, &call, &has_fd), good);
			ck_assert_int_eq(has_fd, good && values[i] == 1);
			ck_assert_int_eq(call.result, good ? 0 : 4711);
		}
	}
}

/* --- READY --- */

static struct kernel_facts facts_of(const char *note)
{
	struct kernel_facts facts = {
		.backend = BACKEND_ENABLE_ADDRESS,
		.name = "enable-address",
		.guarded = true,
		.shared_page = false,
		.deposits = true,
		.flags = KERNEL_PERSIST | KERNEL_MULTI_FORMAT,
		.page_bits = WIRE_PAGE_BITS,
		.capacity = 64900,
		.payload_max = WIRE_PAYLOAD_MAX,
	};

	string_copy(facts.note, sizeof(facts.note), note);
	return facts;
}

static bool read_ready(const void *packet, size_t size, struct kernel_facts *ret)
{
	struct message_header header;
	struct cursor body;

	return message_read(packet, size, &header, &body) && header.kind == MESSAGE_READY &&
	       message_get_ready(body, ret);
}

static void expect_same_facts(const struct kernel_facts *one, const struct kernel_facts *other)
{
	expect(one->backend == other->backend && one->flags == other->flags && one->guarded == other->guarded &&
		       one->shared_page == other->shared_page && one->page_bits == other->page_bits &&
		       one->capacity == other->capacity && one->payload_max == other->payload_max,
	       "facts");
	expect(streq(one->name, other->name), "'%s'", other->name);
	expect(streq(one->note, other->note), "'%s'", other->note);
}

TEST(facts_arrive_as_they_were_sent)
{
	char note[WIRE_SENTENCE_MAX + 1] = "";

	for (size_t length = 0; length <= WIRE_SENTENCE_MAX; length++) {
		struct kernel_facts sent = facts_of(note), got;
		struct packet packet = packet_new();

		sent.shared_page = length % 2;
		sent.guarded = length % 3;
		sent.backend = length % 2 ? BACKEND_STATUS_PAGE : BACKEND_ENABLE_ADDRESS;
		sent.name = length % 2 ? "status-page" : "enable-address";
		message_put_ready(&packet, &sent);
		expect(!packet.failed && packet.size % 4 == 0, "%zu", length);
		memset(&got, CANARY, sizeof(got));
		expect(read_ready(buffer, packet.size, &got), "%zu", length);
		expect_same_facts(&sent, &got);
		if (length < WIRE_SENTENCE_MAX)
			note[length] = (char)('a' + length % 26);
	}
}

/* READY with that body, a note of `length` bytes included. */
static bool raw_is_ready(struct message_ready raw, const char *note, size_t length)
{
	struct packet packet = packet_new();
	struct kernel_facts got = { .page_bits = CANARY, .note = "untouched" };
	bool ready;

	packet_put(&packet, &raw, sizeof(raw));
	packet_put_padded(&packet, note, length);
	ready = message_get_ready(cursor_make(buffer, packet.size), &got);
	expect(ready || (got.page_bits == CANARY && !got.name && streq(got.note, "untouched")), "touched");
	return ready;
}

static const struct message_ready good = {
	.backend = BACKEND_STATUS_PAGE,
	.page_bits = 2,
	.capacity = 1,
	.payload_max = 4,
};

TEST(invalid_facts_are_refused)
{
	struct message_ready bad = good;

	ck_assert(raw_is_ready(bad, "", 0));
	for (uint32_t backend = 0; backend <= UINT16_MAX; backend++) {
		bad.backend = (uint16_t)backend;
		expect(raw_is_ready(bad, "", 0) ==
			       (backend == BACKEND_STATUS_PAGE || backend == BACKEND_ENABLE_ADDRESS),
		       "backend %u", backend);
	}
	bad = good;
	bad.page_bits = 0;
	ck_assert(!raw_is_ready(bad, "", 0));
	bad.page_bits = 1;
	ck_assert(raw_is_ready(bad, "", 0));
	bad.page_bits = WIRE_PAGE_BITS;
	ck_assert(raw_is_ready(bad, "", 0));
	bad.page_bits = WIRE_PAGE_BITS + 1;
	ck_assert(!raw_is_ready(bad, "", 0));
	bad = good;
	for (unsigned value = 0; value <= UINT8_MAX; value++) {
		bad.guarded = (uint8_t)value;
		ck_assert_int_eq(raw_is_ready(bad, "", 0), value <= 1);
		bad.guarded = 0;
		bad.shared_page = (uint8_t)value;
		ck_assert_int_eq(raw_is_ready(bad, "", 0), value <= 1);
		bad.shared_page = 0;
	}
}

TEST(a_note_that_lies_about_its_length_is_refused)
{
	char note[WIRE_SENTENCE_MAX + 8];
	struct message_ready raw = good;

	memset(note, 'x', sizeof(note));
	for (raw.note_length = 0; raw.note_length < 64; raw.note_length++)
		ck_assert_int_eq(raw_is_ready(raw, note, 32), raw.note_length == 32);
	for (raw.note_length = WIRE_SENTENCE_MAX - 4; raw.note_length < sizeof(note); raw.note_length++)
		ck_assert_int_eq(raw_is_ready(raw, note, raw.note_length), raw.note_length <= WIRE_SENTENCE_MAX);
	raw.note_length = UINT16_MAX;
	ck_assert(!raw_is_ready(raw, note, 32));
	raw.note_length = 32;
	note[31] = '\0';
	ck_assert(!raw_is_ready(raw, note, 32));
	note[31] = 'x';
	note[0] = '\0';
	ck_assert(!raw_is_ready(raw, note, 32));
}

TEST(facts_that_end_too_early_or_too_late_are_none)
{
	struct kernel_facts sent = facts_of("because"), got;
	struct packet packet = packet_new();
	struct message_header header;

	message_put_ready(&packet, &sent);
	for (size_t size = sizeof(header); size < packet.size + 8; size++) {
		header = (struct message_header){ .size = (uint32_t)size, .kind = MESSAGE_READY, .count = 1 };
		memcpy(buffer, &header, sizeof(header));
		ck_assert_int_eq(read_ready(buffer, size, &got), size == packet.size);
	}
}

/* --- FAILED --- */

TEST(a_sentence_arrives_as_it_was_sent_or_cut)
{
	char sentence[WIRE_SENTENCE_MAX + 8] = "", got[WIRE_SENTENCE_MAX + 1];
	struct cursor body;

	for (size_t length = 0; length < sizeof(sentence); length++) {
		struct packet packet = packet_new();

		message_put_failed(&packet, sentence);
		ck_assert(!packet.failed);
		header_of(buffer, packet.size, MESSAGE_FAILED, &body);
		memset(got, CANARY, sizeof(got));
		ck_assert(message_get_failed(body, got));
		ck_assert_uint_eq(strlen(got), MIN(length, WIRE_SENTENCE_MAX));
		ck_assert_int_eq(strncmp(got, sentence, strlen(got)), 0);
		if (length < sizeof(sentence) - 1)
			sentence[length] = (char)('a' + length % 26);
	}
}

/* The keeper has a buffer that is just as large as it needs to be. */
TEST(the_longest_sentence_needs_no_more_than_it_takes)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	size_t exact =
		sizeof(struct message_header) + sizeof(uint32_t) + WIRE_SENTENCE_MAX + padding(WIRE_SENTENCE_MAX);

	memset(sentence, 'x', sizeof(sentence) - 1);
	sentence[sizeof(sentence) - 1] = '\0';
	for (size_t less = 0; less < 2; less++) {
		struct packet packet = packet_new();

		packet.capacity = exact - less;
		message_put_failed(&packet, sentence);
		ck_assert_int_eq(packet.failed, less);
		ck_assert_uint_eq(buffer[exact - less], CANARY);
	}
}

static bool raw_has_failed(uint32_t said, const char *text, size_t length)
{
	char got[WIRE_SENTENCE_MAX + 1];
	struct packet packet = packet_new();

	packet_put(&packet, &said, sizeof(said));
	packet_put(&packet, text, length);
	return message_get_failed(cursor_make(buffer, packet.size), got);
}

TEST(a_sentence_that_lies_about_its_length_is_refused)
{
	char text[WIRE_SENTENCE_MAX + 8];

	memset(text, 'x', sizeof(text));
	for (uint32_t said = 0; said < 64; said++)
		ck_assert_int_eq(raw_has_failed(said, text, 32), said == 32);
	for (uint32_t said = 0; said < sizeof(text); said += 4)
		ck_assert_int_eq(raw_has_failed(said, text, said), said <= WIRE_SENTENCE_MAX);
	ck_assert(!raw_has_failed(UINT32_MAX, text, 32));
	ck_assert(!raw_has_failed((uint32_t)-4, text, 32));
	ck_assert(!raw_has_failed(32, text, 31));
	ck_assert(!raw_has_failed(32, text, 33));
	text[16] = '\0';
	ck_assert(!raw_has_failed(32, text, 32));
	/* Not even a length. */
	for (size_t size = 0; size < sizeof(uint32_t); size++)
		ck_assert(!message_get_failed(cursor_make("\0\0\0", size), text));
}
