/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <sys/socket.h>

#include "kernel/rpc/message.h"
#include "protocol/transport.h"
#include "tests/raw_call.h"
#include "tests/suite.h"

enum { CANARY = 0xa5, MANY = 1000, HEADER = sizeof(struct message_header), CALL = sizeof(struct raw_call) };

/* check writes a line for each of its own assertions: too much for assertions that are repeated a hundred thousand times. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

static uint8_t buffer[2 * MESSAGE_MAX];
static struct message_packet message;

static struct packet packet_new(void)
{
	memset(buffer, CANARY, sizeof(buffer));
	return packet_make(buffer, MESSAGE_MAX);
}

static const struct kernel_call examples[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 7, .text = "/system.slice/a.service", .fd = -1 },
	{ .op = KERNEL_STREAM_NEW, .page = 7, .stream = UINT32_MAX, .fd = -1 },
	{ .op = KERNEL_REGISTER, .stream = 9, .flags = REGISTER_MULTI_FORMAT, .text = "event u32 x", .fd = -1 },
	{ .op = KERNEL_REGISTER, .stream = 9, .text = "event", .fd = -1 },
	{ .op = KERNEL_RELEASE, .stream = 9, .index = 10, .fd = -1 },
	{ .op = KERNEL_DEPOSIT, .number = UINT64_MAX, .fd = 0 },
	{ .op = KERNEL_DEPOSITED, .number = UINT64_C(1) << 32, .fd = -1 },
	{ .op = KERNEL_STREAM_ADOPT, .page = 7, .stream = 9, .number = INT64_MAX, .fd = -1 },
	{ .op = KERNEL_STREAM_ADOPT, .page = 7, .stream = 10, .number = INT64_MAX, .fd = 0 },
	{ .op = KERNEL_ADOPT, .stream = 9, .text = "event u32 x", .bit = 32767, .index = 4711, .fd = -1 },
};

/* The message of the first bytes of the buffer, with so many fds. The result of message_receive(). */
static int receive(size_t size, size_t n_fds)
{
	const int fds[MESSAGE_FDS_MAX] = { 0 };
	int pair[2], r;

	fdset_deinit(&message.fds);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	expect(transport_send(pair[0], buffer, size, fds, n_fds, 0) == 0, "not sent");
	r = message_receive(pair[1], &message);
	close(pair[0]);
	close(pair[1]);
	return r;
}

static void put_header(size_t size, enum message_kind kind, size_t count)
{
	const struct message_header header = { (uint32_t)size, (uint16_t)kind, (uint16_t)count };

	memcpy(buffer, &header, MIN(size, sizeof(header)));
}

/* Reads a packet of calls as the keeper does: their number, or -1. */
static int read_calls(size_t size, size_t n_fds, struct kernel_call *ret)
{
	static char text[MESSAGE_CALLS_MAX][WIRE_TENANT_MAX + 1];
	bool good = receive(size, n_fds) > 0 && message.header.kind == MESSAGE_CALLS &&
		    message.header.count <= MESSAGE_CALLS_MAX;

	memset(text, CANARY, sizeof(text[0]));
	for (size_t i = 0; i < message.header.count && good; i++) {
		char *room = text[i];

		good = message_next_call(&message, &ret[i], &room);
		if (good)
			fd_close(ret[i].fd);
	}
	good = good && message_is_done(&message);
	fdset_deinit(&message.fds);
	return good ? message.header.count : -1;
}

static void expect_same_call(const struct kernel_call *one, const struct kernel_call *other)
{
	expect(one->op == other->op && one->page == other->page && one->stream == other->stream &&
		       one->flags == other->flags && one->index == other->index && one->bit == other->bit &&
		       one->number == other->number && other->result == 0,
	       "numbers");
	expect(other->text && streq(one->text ? one->text : "", other->text), "text");
	expect((one->fd >= 0) == (other->fd >= 0), "fd");
}

/* --- calls --- */

TEST(calls_arrive_as_they_were_sent)
{
	struct kernel_call got[ARRAY_SIZE(examples)] = { 0 };
	struct packet packet = packet_new();

	ck_assert_uint_eq(message_put(&packet, MESSAGE_CALLS, examples, ARRAY_SIZE(examples)), ARRAY_SIZE(examples));
	ck_assert_int_eq(read_calls(packet.size, 2, got), ARRAY_SIZE(examples));
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++)
		expect_same_call(&examples[i], &got[i]);
	ck_assert_uint_eq(buffer[packet.size], CANARY);
}

TEST(texts_of_every_length_are_padded_with_zeros)
{
	static char text[WIRE_TENANT_MAX + 1];

	for (size_t length = 0; length <= WIRE_TENANT_MAX; length++) {
		const struct kernel_call call = { .op = KERNEL_PAGE_NEW, .text = text, .fd = -1 };
		struct packet packet = packet_new();
		struct kernel_call got;

		expect(message_put(&packet, MESSAGE_CALLS, &call, 1) == 1, "%zu", length);
		expect(packet.size == HEADER + CALL + length + padding(length), "%zu", length);
		for (size_t end = HEADER + CALL + length; end < packet.size; end++)
			expect(buffer[end] == 0, "%zu", length);
		expect(read_calls(packet.size, 0, &got) == 1, "%zu", length);
		expect_same_call(&call, &got);
		if (length < WIRE_TENANT_MAX)
			text[length] = (char)('a' + length % 26);
	}
}

TEST(calls_with_wrong_size_or_count_are_refused)
{
	struct kernel_call got[MESSAGE_CALLS_MAX];
	struct packet packet = packet_new();

	message_put(&packet, MESSAGE_CALLS, examples, ARRAY_SIZE(examples));
	for (size_t size = 1; size < packet.size + 64; size++) {
		if (size != packet.size)
			expect(receive(size, 0) == -EPROTO, "%zu", size);
		put_header(size, MESSAGE_CALLS, ARRAY_SIZE(examples));
		expect(read_calls(size, 2, got) == (size == packet.size ? (int)ARRAY_SIZE(examples) : -1), "%zu", size);
		put_header(packet.size, MESSAGE_CALLS, ARRAY_SIZE(examples));
	}
	for (size_t count = 0; count < 2 * ARRAY_SIZE(examples); count++) {
		put_header(packet.size, MESSAGE_CALLS, count);
		expect(read_calls(packet.size, 2, got) == (count == ARRAY_SIZE(examples) ? (int)count : -1), "%zu",
		       count);
	}
}

/* Sends one call with that text, with or without the truth about its length. */
static int read_raw_call(struct raw_call raw, const char *text, size_t length, size_t n_fds)
{
	struct packet packet = packet_new();
	struct kernel_call got;

	packet_room(&packet, HEADER);
	packet_put(&packet, &raw, sizeof(raw));
	packet_put_padded(&packet, text, length);
	put_header(packet.size, MESSAGE_CALLS, 1);
	return read_calls(packet.size, n_fds, &got);
}

TEST(unknown_operation_is_refused)
{
	for (uint32_t op = 0; op <= UINT16_MAX; op++) {
		const struct raw_call raw = { .op = (uint16_t)op };
		bool good = op < KERNEL_OP_MAX_ && !message_op((enum kernel_op)op)->needs_fd;

		expect(read_raw_call(raw, "", 0, 0) == (good ? 1 : -1), "%u", op);
	}
}

TEST(operation_says_which_calls_have_fds)
{
	static const uint32_t values[] = { 0, 1, 2, 256, 65536, UINT32_MAX };

	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++) {
		bool must = op == KERNEL_DEPOSIT || op == KERNEL_PAGE_ADOPT, may = must || op == KERNEL_STREAM_ADOPT;
		bool makes = op == KERNEL_PAGE_NEW || op == KERNEL_STREAM_NEW;

		ck_assert_int_eq(message_op(op)->undo != 0, makes);
		ck_assert_int_eq(message_op(op)->gives_fd, makes || op == KERNEL_DEPOSITED || op == KERNEL_PAGE_FETCH ||
								   op == KERNEL_STREAM_FETCH || op == KERNEL_NATIVE);
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			const struct raw_call raw = { .op = (uint16_t)op, .has_fd = values[i] };
			bool good = values[i] == 0 ? !must : values[i] == 1 && may;

			expect(read_raw_call(raw, "", 0, values[i] == 1) == (good ? 1 : -1), "%u of %u", values[i], op);
			/* One fd too few, and one too many. */
			expect(read_raw_call(raw, "", 0, values[i] == 1 ? 0 : 1) == -1, "%u of %u", values[i], op);
		}
	}
}

TEST(text_length_must_be_true)
{
	static const uint32_t lies[] = { 0,	5,    6,    7,		8,	   9,
					 12,	4095, 4096, UINT16_MAX, INT32_MAX, (uint32_t)INT32_MIN,
					 -4096, -13,  -4,   -3,		-2,	   UINT32_MAX };
	static char text[WIRE_TENANT_MAX + 8];

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		ck_assert_int_eq(read_raw_call((struct raw_call){ .text_length = lies[i] }, "four", 4, 0), -1);
	memset(text, 'x', sizeof(text) - 1);
	for (uint32_t length = WIRE_TENANT_MAX - 4; length < sizeof(text); length++)
		ck_assert_int_eq(read_raw_call((struct raw_call){ .text_length = length }, text, length, 0),
				 length <= WIRE_TENANT_MAX ? 1 : -1);
}

TEST(text_has_no_zeros_and_padding_only_zeros)
{
	const struct raw_call raw = { .op = KERNEL_REGISTER, .text_length = 11 };
	struct kernel_call got;

	for (size_t at = 0; at < 11; at++) {
		char text[] = "event u32 x";

		text[at] = '\0';
		ck_assert_int_eq(read_raw_call(raw, text, 11, 0), -1);
	}
	ck_assert_int_eq(read_raw_call(raw, "event u32 x", 11, 0), 1);
	buffer[HEADER + CALL + 11] = 1;
	ck_assert_int_eq(read_calls(HEADER + CALL + 12, 0, &got), -1);
}

/* --- how many calls make a packet --- */

static struct kernel_call many[MANY];

static void fill_many(enum kernel_op op, const char *text, int fd)
{
	for (size_t i = 0; i < MANY; i++)
		many[i] = (struct kernel_call){ .op = op, .index = (uint32_t)i, .text = text, .fd = fd };
}

static size_t put_many(size_t n, size_t capacity)
{
	struct kernel_call got[MESSAGE_CALLS_MAX] = { 0 };
	struct packet packet = packet_new();
	size_t put, fds = 0;

	packet.capacity = capacity;
	put = message_put(&packet, MESSAGE_CALLS, many, n);
	expect(packet.size <= capacity, "%zu bytes of %zu", packet.size, capacity);
	expect(buffer[capacity] == CANARY, "written beyond its end");
	expect(packet.failed == (put == 0), "%zu put", put);
	if (put == 0)
		return 0;
	for (size_t i = 0; i < put; i++)
		fds += many[i].fd >= 0;
	expect(read_calls(packet.size, fds, got) == (int)put, "%zu put", put);
	for (size_t i = 0; i < put; i++)
		expect_same_call(&many[i], &got[i]);
	return put;
}

TEST(packet_takes_calls_up_to_limit)
{
	static char text[WIRE_DESCRIPTION_MAX + 1];

	memset(text, 'x', sizeof(text) - 1);
	for (unsigned longest = 0; longest < 2; longest++) {
		fill_many(KERNEL_REGISTER, longest ? text : NULL, -1);
		ck_assert_uint_eq(put_many(1, MESSAGE_MAX), 1);
		ck_assert_uint_eq(put_many(MESSAGE_CALLS_MAX, MESSAGE_MAX), MESSAGE_CALLS_MAX);
		ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
	}
}

TEST(call_that_does_not_fit_is_left)
{
	static const size_t lengths[] = { 0, 1, 4, 511, WIRE_TENANT_MAX };
	static char text[WIRE_TENANT_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t one = CALL + lengths[i] + padding(lengths[i]);

		memset(text, 'x', lengths[i]);
		fill_many(KERNEL_REGISTER, text, -1);
		for (size_t n = 1; n <= 4; n++) {
			ck_assert_uint_eq(put_many(MANY, HEADER + n * one - 1), n - 1);
			ck_assert_uint_eq(put_many(MANY, HEADER + n * one), n);
			ck_assert_uint_eq(put_many(MANY, HEADER + (n + 1) * one - 1), n);
		}
	}
	fill_many(KERNEL_RELEASE, NULL, -1);
	for (size_t capacity = 0; capacity < HEADER + CALL; capacity++)
		ck_assert_uint_eq(put_many(1, capacity), 0);
}

TEST(packet_limits_fds_in_each_direction)
{
	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++) {
		const bool takes = message_op(op)->takes_fd;
		const size_t limit = takes || message_op(op)->gives_fd ? MESSAGE_FDS_MAX : MESSAGE_CALLS_MAX;

		fill_many(op, NULL, takes ? 0 : -1);
		ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), limit);
	}
	for (size_t i = 0; i < MANY; i++) {
		many[i].op = i % 2 ? KERNEL_DEPOSIT : KERNEL_DEPOSITED;
		many[i].fd = i % 2 ? 0 : -1;
	}
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), 2 * MESSAGE_FDS_MAX);
	fill_many(KERNEL_STREAM_ADOPT, NULL, -1);
	ck_assert_uint_eq(put_many(MANY, MESSAGE_MAX), MESSAGE_CALLS_MAX);
}

/* --- answers --- */

TEST(answers_arrive_as_they_were_sent)
{
	const struct kernel_call sent[] = {
		{ .op = KERNEL_PAGE_NEW, .text = "/tenant", .result = KERNEL_OK, .fd = 3 },
		{ .op = KERNEL_STREAM_NEW, .result = -EMFILE, .fd = -1 },
		{ .op = KERNEL_STREAM_NEW, .result = KERNEL_OK, .number = INT64_MAX, .fd = 0 },
		{ .op = KERNEL_REGISTER, .result = KERNEL_OK, .bit = 32767, .index = UINT32_MAX, .fd = -1 },
		{ .op = KERNEL_CLEAN, .result = INT32_MIN, .fd = -1 },
	};

	/* The last time the second fd is lost. */
	for (unsigned n_fds = 2; n_fds > 0; n_fds--) {
		struct packet packet = packet_new();

		ck_assert_uint_eq(message_put(&packet, MESSAGE_ANSWERS, sent, ARRAY_SIZE(sent)), ARRAY_SIZE(sent));
		ck_assert_int_eq(receive(packet.size, n_fds), 1);
		ck_assert_uint_eq(message.header.kind, MESSAGE_ANSWERS);
		message.fds_lost = n_fds < 2;
		for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
			struct kernel_call call = {
				.op = sent[i].op, .page = 5, .stream = 6, .text = "mine", .fd = -1
			};
			bool has_fd = i == 0 || (i == 2 && n_fds == 2);

			ck_assert(message_next_answer(&message, &call));
			ck_assert_int_eq(call.result, i == 2 && n_fds < 2 ? -EMFILE : sent[i].result);
			ck_assert_uint_eq(call.bit, sent[i].bit);
			ck_assert_uint_eq(call.index, sent[i].index);
			ck_assert_uint_eq(call.number, sent[i].number);
			ck_assert_int_eq(call.fd >= 0, has_fd);
			fd_close(call.fd);
			ck_assert_uint_eq(call.page + call.stream, 11);
			ck_assert_str_eq(call.text, "mine");
		}
		ck_assert(message_is_done(&message));
		/* As many fds as belong to answers, but some were lost; or too few, but none was lost. */
		message.fds_lost = !message.fds_lost;
		ck_assert(!message_is_done(&message));
	}
}

static bool read_raw_answer(struct raw_call raw, size_t size, enum kernel_op op)
{
	struct kernel_call call = { .op = op, .result = 4711, .bit = 2, .index = 3, .fd = -1 };
	bool good;

	put_header(HEADER + size, MESSAGE_ANSWERS, 1);
	memcpy(buffer + HEADER, &raw, size);
	ck_assert_int_eq(receive(HEADER + size, 1), 1);
	good = message_next_answer(&message, &call) && message_is_done(&message);
	fd_close(call.fd);
	fdset_deinit(&message.fds);
	return good;
}

TEST(answer_has_fd_only_if_call_succeeded_and_gives_one)
{
	static const uint32_t values[] = { 1, 2, 256, 65536, UINT32_MAX };

	for (enum kernel_op op = 0; op < KERNEL_OP_MAX_; op++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct raw_call raw = { .has_fd = values[i] };

			ck_assert_int_eq(read_raw_answer(raw, sizeof(raw), op),
					 values[i] == 1 && message_op(op)->gives_fd);
			raw.result = -EMFILE;
			ck_assert(!read_raw_answer(raw, sizeof(raw), op));
		}
}

TEST(invalid_answer_is_refused)
{
	const struct raw_call good = { .has_fd = 1 }, with_text = { .has_fd = 1, .text_length = 4 };

	ck_assert(read_raw_answer(good, sizeof(good), KERNEL_STREAM_NEW));
	ck_assert(!read_raw_answer(with_text, sizeof(with_text), KERNEL_STREAM_NEW));
	for (size_t size = 0; size < sizeof(good); size++)
		ck_assert(!read_raw_answer(good, size, KERNEL_STREAM_NEW));
}

/* --- facts --- */

static const struct kernel_facts facts = {
	.backend = BACKEND_STATUS_PAGE,
	.flags = REGISTER_PERSIST,
	.page_bits = 2,
	.capacity = 1,
	.payload_max = 4,
	.deposits = 1,
	.note = "because",
};

static bool read_facts(const struct kernel_facts *sent, enum message_kind kind, size_t size, struct kernel_facts *ret)
{
	put_header(HEADER + size, kind, 1);
	memcpy(buffer + HEADER, sent, MIN(size, sizeof(*sent)));
	return receive(HEADER + size, 0) == 1 && message_get_facts(&message, ret);
}

TEST(facts_arrive_as_they_were_sent)
{
	struct kernel_facts got = { 0 };
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(message_send_facts(pair[0], MESSAGE_READY, &facts), 0);
	ck_assert_int_eq(message_receive(pair[1], &message), 1);
	ck_assert_uint_eq(message.header.kind, MESSAGE_READY);
	ck_assert(message_get_facts(&message, &got));
	ck_assert_mem_eq(&got, &facts, sizeof(facts));
	close(pair[0]);
	close(pair[1]);
}

TEST(invalid_facts_are_refused)
{
	static const struct {
		size_t at;
		size_t bytes;
		uint32_t value;
		bool good;
	} changes[] = {
		{ offsetof(struct kernel_facts, backend), 2, 0, false },
		{ offsetof(struct kernel_facts, backend), 2, BACKEND_EMBEDDED, false },
		{ offsetof(struct kernel_facts, backend), 2, BACKEND_ENABLE_ADDRESS, true },
		{ offsetof(struct kernel_facts, backend), 2, UINT16_MAX, false },
		{ offsetof(struct kernel_facts, page_bits), 4, 0, false },
		{ offsetof(struct kernel_facts, page_bits), 4, 1, true },
		{ offsetof(struct kernel_facts, page_bits), 4, WIRE_PAGE_BITS, true },
		{ offsetof(struct kernel_facts, page_bits), 4, WIRE_PAGE_BITS + 1, false },
		{ offsetof(struct kernel_facts, guarded), 1, 1, true },
		{ offsetof(struct kernel_facts, guarded), 1, 2, false },
		{ offsetof(struct kernel_facts, shared_page), 1, 1, true },
		{ offsetof(struct kernel_facts, shared_page), 1, 255, false },
		{ offsetof(struct kernel_facts, deposits), 1, 2, false },
	};
	struct kernel_facts changed = facts, got = { .capacity = CANARY };

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		changed = facts;
		memcpy((uint8_t *)&changed + changes[i].at, &changes[i].value, changes[i].bytes);
		ck_assert_int_eq(read_facts(&changed, MESSAGE_READY, sizeof(changed), &got), changes[i].good);
		/* Nobody looks at the other facts of a failure. */
		ck_assert(read_facts(&changed, MESSAGE_FAILED, sizeof(changed), &got));
	}
	got.capacity = CANARY;
	memset(changed.note, 'x', sizeof(changed.note));
	ck_assert(!read_facts(&changed, MESSAGE_READY, sizeof(changed), &got));
	ck_assert(!read_facts(&changed, MESSAGE_FAILED, sizeof(changed), &got));
	for (size_t size = 0; size < sizeof(facts) + 8; size++)
		if (size != sizeof(facts))
			ck_assert(!read_facts(&facts, MESSAGE_READY, size, &got));
	ck_assert_uint_eq(got.capacity, CANARY);
}
