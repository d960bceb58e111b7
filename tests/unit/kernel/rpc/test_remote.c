/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The keeper as the daemon sees it: first messages, batches, the end, and violations of the protocol. */

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "protocol/transport.h"
#include "tests/unit/kernel/rpc/line.h"
#include "tests/unit/shortage.h"

static struct {
	int interruptions; /* by signals, before anything else */
	bool times_out;
	int timeout; /* of the last poll() */
} waiting;

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct timespec time = { .tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L };

	waiting.timeout = timeout;
	if (waiting.interruptions > 0) {
		waiting.interruptions--;
		errno = EINTR;
		return -1;
	}
	return waiting.times_out ? 0 : (int)syscall(SYS_ppoll, fds, n, timeout < 0 ? NULL : &time, NULL, 0);
}

/* --- the keeper's first message --- */

TEST(ready_keeper_is_taken_over)
{
	RAW_LINE(line);
	char why[WIRE_SENTENCE_MAX + 1] = "untouched";
	int fd = line.daemon;

	keeper_is_ready(&line);
	ck_assert_int_eq(remote_new(line.daemon, &line.kernel, why), 0);
	line.daemon = -1;
	ck_assert_int_eq(line.kernel->fd, fd);
	ck_assert_mem_eq(&line.kernel->facts, &good_facts, sizeof(good_facts));
	ck_assert_ptr_null(line.kernel->tracer);
	ck_assert_str_eq(why, "untouched");
	expect_dispatched(&line);
}

/* The socket stays the caller's. */
static void expect_no_kernel(const struct line *line, int result, const char *sentence)
{
	struct kernel *kernel = NULL;
	char why[WIRE_SENTENCE_MAX + 1] = "untouched";

	ck_assert_int_eq(remote_new(line->daemon, &kernel, why), result);
	ck_assert_ptr_null(kernel);
	ck_assert_str_eq(why, sentence);
	ck_assert_int_ge(fcntl(line->daemon, F_GETFD), 0);
}

TEST(keeper_without_backend_gives_reason)
{
	RAW_LINE(line);

	keeper_fails(&line, "mount tracefs first");
	expect_no_kernel(&line, -ECONNREFUSED, "mount tracefs first");
	line.keeper = fd_close(line.keeper);
	expect_no_kernel(&line, -ECONNRESET, "untouched");
}

TEST(silent_keeper_times_out)
{
	RAW_LINE(line);

	waiting.times_out = true;
	waiting.interruptions = 3;
	expect_no_kernel(&line, -ETIMEDOUT, "untouched");
	ck_assert_int_eq(waiting.interruptions, 0);
	ck_assert_int_ge(waiting.timeout, 10000);
	ck_assert_int_le(waiting.timeout, 60000);
}

TEST(invalid_first_message_is_refused)
{
	for (size_t i = 0; i <= NONSENSE; i++) {
		RAW_LINE(line);

		if (i < NONSENSE)
			keeper_sends_nonsense(&line, i, i % 2 * MESSAGE_FDS_MAX);
		else
			keeper_sends_answer(&line);
		expect_no_kernel(&line, -EPROTO, "untouched");
	}
}

/* --- batches --- */

TEST(batch_is_sent_as_it_is_and_answered)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);

	batch->calls[1].text = "another u64 y";
	batch->calls[2].op = KERNEL_RELEASE;
	batch->calls[2].text = NULL;
	submit(&line, batch);
	expect_received(&line, 3);
	expect_nothing_received(&line);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(received.calls[i].op, i < 2 ? KERNEL_REGISTER : KERNEL_RELEASE);
		ck_assert_uint_eq(received.calls[i].page, 1);
		ck_assert_uint_eq(received.calls[i].stream, 2);
		ck_assert_uint_eq(received.calls[i].flags, 3);
		ck_assert_uint_eq(received.calls[i].index, i);
	}
	ck_assert_str_eq(received.text[0], "event u32 x");
	ck_assert_str_eq(received.text[1], "another u64 y");
	ck_assert_str_eq(received.text[2], "");
	expect_dispatched(&line);
	keeper_answers(&line);
	ck_assert_uint_eq(batch->done, 0);
	expect_dispatched(&line);
	expect_all_ok(batch);
	ck_assert_str_eq(batch->calls[1].text, "another u64 y");
}

TEST(batches_are_under_way_together_and_done_in_order)
{
	LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_RELEASE, 2);
	BATCH(third, line, KERNEL_CLEAN, 3);

	submit(&line, first);
	submit(&line, second);
	submit(&line, third);
	for (size_t n = 1; n <= 2; n++) {
		expect_received(&line, n);
		keeper_answers(&line);
	}
	expect_dispatched(&line);
	expect_all_ok(first);
	expect_all_ok(second);
	ck_assert_uint_eq(third->done, 0);
	EXCHANGE(&line, 3);
	expect_all_ok(third);
	ck_assert_uint_eq(order.n, 3);
	ck_assert_ptr_eq(order.batch[0], first);
	ck_assert_ptr_eq(order.batch[1], second);
	ck_assert_ptr_eq(order.batch[2], third);
}

/* Answers the oldest packet. */
static void answer_oldest(const struct line *line, size_t from, size_t n)
{
	struct kernel_call answers[MESSAGE_CALLS_MAX];

	for (size_t i = 0; i < n; i++) {
		answers[i] = (struct kernel_call){ .op = KERNEL_REGISTER, .index = (uint32_t)(from + i), .fd = -1 };
		answer_well(&answers[i]);
	}
	send_answers(line, answers, n);
}

TEST(window_limits_packets_under_way)
{
	LINE(line);
	struct batch *batches[WINDOW + 8];
	size_t packets = 2 * ARRAY_SIZE(batches), sent = 0;

	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		batches[i] = batch_new(&line, KERNEL_REGISTER, 150);
		submit(&line, batches[i]);
	}
	for (size_t answered = 0; answered < packets; answered++) {
		while (keeper_receives(&line))
			ck_assert_uint_eq(received.n, sent++ % 2 ? 50 : 100);
		ck_assert_uint_eq(sent, MIN(answered + WINDOW, packets));
		answer_oldest(&line, answered % 2 ? 100 : 0, answered % 2 ? 50 : 100);
		expect_dispatched(&line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		expect_all_ok(batches[i]);
		ck_assert_ptr_eq(order.batch[i], batches[i]);
		batch_free(&batches[i]);
	}
}

TEST(empty_batch_is_done_at_once)
{
	LINE(line);
	BATCH(before, line, KERNEL_REGISTER, 1);
	BATCH(nothing, line, KERNEL_REGISTER, 0);

	submit(&line, before);
	submit(&line, nothing);
	ck_assert_uint_eq(nothing->done, 1);
	ck_assert_uint_eq(before->done, 0);
	EXCHANGE(&line, 1);
	expect_nothing_received(&line);
	expect_all_ok(before);
}

TEST(call_without_done_is_copied_and_sent_in_order)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 250);
	struct kernel_call call = { .op = KERNEL_STREAM_NEW, .stream = 77 };
	int fds = count_open_fds();

	submit(&line, batch);
	kernel_submit(line.kernel, &call, 1, NULL, NULL);
	memset(&call, 0xff, sizeof(call));
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = 78 });
	EXCHANGE(&line, 100, 100, 50, 1);
	expect_all_ok(batch);
	ck_assert_int_eq(received.calls[0].op, KERNEL_STREAM_NEW);
	ck_assert_uint_eq(received.calls[0].stream, 77);
	ck_assert_int_eq(count_open_fds(), fds);
	expect_received(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_PAGE_FREE);
	ck_assert_uint_eq(received.calls[0].page, 78);
	received.calls[0].result = -EBUSY;
	send_answers(&line, received.calls, 1);
	expect_dispatched(&line);
}

TEST(batch_without_memory_is_not_sent)
{
	LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 2);

	memory_comes_back = true;
	allocations_left = 0;
	submit(&line, batch);
	allocations_left = 0;
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE });
	expect_results(batch, 0, 2, -ENOMEM);
	expect_nothing_received(&line);
	expect_dispatched(&line);
}

/* This socket takes one packet of the longest descriptions at a time. */
TEST(packet_waits_for_room_in_socket)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 250);
	char text[WIRE_DESCRIPTION_MAX + 1];
	int size = 27700; /* the kernel doubles it */

	ck_assert_int_eq(setsockopt(line.kernel->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < batch->n; i++)
		batch->calls[i].text = text;
	submit(&line, batch);
	for (size_t left = batch->n; left > 0; left -= received.n) {
		expect_received(&line, MIN(left, MESSAGE_CALLS_MAX));
		expect_nothing_received(&line);
		ck_assert_uint_eq(batch->done, 0);
		keeper_answers(&line);
		expect_dispatched(&line);
	}
	expect_all_ok(batch);
}

/* --- the end --- */

TEST(cancel_answers_everything_once)
{
	LINE(line);
	BATCH(first, line, KERNEL_STREAM_NEW, 5);
	BATCH(second, line, KERNEL_REGISTER, 250);
	BATCH(third, line, KERNEL_REGISTER, 3);
	BATCH(later, line, KERNEL_PAGE_NEW, 2);

	first->next = later;
	submit(&line, first);
	submit(&line, second);
	submit(&line, third);
	for (unsigned i = 0; i < WINDOW; i++)
		kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE });
	kernel_cancel(line.kernel);
	expect_cancelled(first);
	expect_cancelled(second);
	expect_cancelled(third);
	expect_cancelled(later);
	ck_assert_ptr_eq(order.batch[0], first);
	ck_assert_ptr_eq(order.batch[1], later);
	ck_assert_ptr_eq(order.batch[2], second);
	ck_assert_ptr_eq(order.batch[3], third);
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE });
	kernel_cancel(line.kernel);
	/* The packets that were sent before have arrived. The answer to one is ignored. */
	expect_received(&line, 5);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_cancelled(first);
	expect_received(&line, 100);
	expect_received(&line, 100);
	expect_received(&line, 50);
	expect_received(&line, 3);
	for (unsigned packets = 5; packets < WINDOW; packets++)
		expect_received(&line, 1);
	expect_nothing_received(&line);
}

TEST(answers_before_cancel_are_kept)
{
	LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 20);

	submit(&line, batch);
	EXCHANGE(&line, MESSAGE_FDS_MAX);
	ck_assert_uint_eq(batch->done, 0);
	line.kernel = kernel_free(line.kernel);
	expect_results(batch, 0, MESSAGE_FDS_MAX, KERNEL_OK);
	expect_results(batch, MESSAGE_FDS_MAX, 20, -ECANCELED);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
		ck_assert_int_ge(fcntl(batch->calls[i].fd, F_GETFD), 0);
}

static void cancel_on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct line *line = data;

	kernel_cancel(line->kernel);
}

TEST(done_may_cancel)
{
	LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 1);

	kernel_submit(line.kernel, first->calls, 1, cancel_on_done, &line);
	submit(&line, second);
	for (unsigned i = 0; i < 2; i++) {
		expect_received(&line, 1);
		keeper_answers(&line);
	}
	expect_dispatched(&line);
	ck_assert_int_eq(first->calls[0].result, KERNEL_OK);
	expect_cancelled(second);
}

TEST(end_of_keeper_is_noticed)
{
	/* The connection ends, the keeper reads nothing more, or it ends after its answers. */
	for (unsigned way = 0; way < 3; way++) {
		LINE(line);
		BATCH(before, line, KERNEL_STREAM_NEW, 1);
		BATCH(after, line, KERNEL_REGISTER, 1);
		struct pollfd ask = { .fd = line.kernel->fd, .events = POLLIN };

		submit(&line, before);
		if (way == 1)
			ck_assert_int_eq(shutdown(line.keeper, SHUT_RD), 0);
		if (way == 2) {
			expect_received(&line, 1);
			keeper_answers(&line);
		}
		if (way != 1)
			line.keeper = fd_close(line.keeper);
		submit(&line, after);
		ck_assert_int_eq(poll(&ask, 1, 0), 1);
		expect_failure(&line, -ECONNRESET);
		ck_assert_uint_eq(before->done, way == 2);
		ck_assert_uint_eq(after->done, 0);
		kernel_cancel(line.kernel);
		expect_results(before, 0, 1, way == 2 ? KERNEL_OK : -ECANCELED);
		expect_cancelled(after);
	}
}
