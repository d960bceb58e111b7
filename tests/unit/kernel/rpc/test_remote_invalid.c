/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A keeper that violates the protocol. */

#include "tests/unit/kernel/rpc/line.h"

/* The answer to two calls, a stream and an event on it. */
struct violation {
	const char *name;
	struct kernel_call answers[4];
	size_t n;     /* answers in the packet */
	size_t count; /* in its header */
	size_t fds;
	size_t granted; /* calls whose answers are good all the same */
};

#define STREAM                                                                                                         \
	{                                                                                                              \
		.result = KERNEL_OK, .fd = 0                                                                           \
	}
#define NO_STREAM                                                                                                      \
	{                                                                                                              \
		.result = KERNEL_OK, .fd = -1                                                                          \
	}
#define EVENT                                                                                                          \
	{                                                                                                              \
		.result = KERNEL_OK, .bit = 2, .index = 3, .fd = -1                                                    \
	}

static const struct violation violations[] = {
	{ "an answer too few", { STREAM }, 1, 1, 1, 0 },
	{ "an answer too few and a wrong count", { STREAM }, 1, 2, 1, 1 },
	{ "an answer too many", { STREAM, EVENT, EVENT }, 3, 3, 1, 0 },
	{ "an answer too many and a wrong count", { STREAM, EVENT, EVENT }, 3, 2, 1, 2 },
	{ "no fd in the packet", { STREAM, EVENT }, 2, 2, 0, 0 },
	{ "no fd for a stream", { NO_STREAM, EVENT }, 2, 2, 0, 0 },
	{ "an fd too many", { STREAM, EVENT }, 2, 2, 2, 2 },
	{ "an fd for the event", { STREAM, STREAM }, 2, 2, 2, 1 },
};

static void violate(const struct line *line, const struct violation *violation)
{
	uint8_t buffer[512];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct message_header header = { .kind = MESSAGE_ANSWERS, .count = (uint16_t)violation->count };

	message_put(&packet, MESSAGE_ANSWERS, violation->answers, violation->n);
	header.size = (uint32_t)packet.size;
	memcpy(packet.data, &header, sizeof(header));
	keeper_sends(line, packet.data, packet.size, violation->fds);
}

TEST(invalid_answers_end_reading)
{
	for (size_t i = 0; i < ARRAY_SIZE(violations); i++) {
		const size_t granted = violations[i].granted;
		LINE(line);
		BATCH(batch, line, KERNEL_STREAM_NEW, 2);
		BATCH(next, line, KERNEL_REGISTER, 1);
		int fds = count_open_fds();

		batch->calls[1].op = KERNEL_REGISTER;
		submit(&line, batch);
		submit(&line, next);
		violate(&line, &violations[i]);
		expect_failure(&line, -EPROTO);
		ck_assert_uint_eq(batch->done, 0);
		/* A valid answer behind it changes nothing. */
		keeper_receives(&line);
		keeper_answers(&line);
		expect_failure(&line, -EPROTO);
		kernel_cancel(line.kernel);
		ck_assert_uint_eq(batch->done, 1);
		for (size_t j = 0; j < 2; j++)
			ck_assert_msg(batch->calls[j].result == (j < granted ? KERNEL_OK : -ECANCELED), "%s",
				      violations[i].name);
		ck_assert_int_eq(batch->calls[0].fd >= 0, granted > 0);
		ck_assert_int_eq(batch->calls[1].fd, -1);
		expect_cancelled(next);
		ck_assert_int_eq(count_open_fds(), fds + (granted > 0));
	}
}

TEST(invalid_packets_end_reading)
{
	/* The last one is a good READY, at the wrong time. */
	for (size_t i = 0; i <= NONSENSE; i++) {
		LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, 1);

		submit(&line, batch);
		if (i < NONSENSE)
			keeper_sends_nonsense(&line, i, i % 3);
		else
			keeper_is_ready(&line);
		expect_failure(&line, -EPROTO);
		kernel_cancel(line.kernel);
		expect_cancelled(batch);
	}
}

TEST(unexpected_answer_ends_reading)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);

	submit(&line, batch);
	expect_received(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	keeper_sends_answer(&line);
	expect_failure(&line, -EPROTO);
	expect_all_ok(batch);
}
