/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A keeper takes the place of another. */

#include <sys/socket.h>

#include "tests/unit/kernel/rpc/line.h"

struct succession {
	struct line *line;
	struct batch *batch; /* of `restore`, or NULL */
	unsigned restored;
};

static void restore(void *data)
{
	struct succession *succession = data;

	succession->restored++;
	if (succession->batch)
		submit(succession->line, succession->batch);
}

/* The new keeper has sent nothing yet. */
static void connect_next(struct line *line, struct succession *succession)
{
	int pair[2];

	succession->line = line;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fd_close(line->keeper);
	line->keeper = pair[1];
	remote_succeed(line->kernel, pair[0], restore, succession);
	ck_assert_int_eq(line->kernel->fd, pair[0]);
}

static void replace_keeper(struct line *line, struct succession *succession)
{
	line->keeper = fd_close(line->keeper);
	expect_failure(line, -ECONNRESET);
	connect_next(line, succession);
}

static void replace_with_ready(struct line *line, struct succession *succession)
{
	replace_keeper(line, succession);
	keeper_is_ready(line);
	expect_dispatched(line);
}

TEST(unanswered_calls_go_to_new_keeper)
{
	static const enum kernel_op ops[] = { KERNEL_REGISTER, KERNEL_CLEAN, KERNEL_RELEASE };
	LINE(line);
	BATCH(answered, line, KERNEL_REGISTER, 1);
	BATCH(sent, line, KERNEL_REGISTER, 1);
	BATCH(without_keeper, line, KERNEL_CLEAN, 1);
	BATCH(before_ready, line, KERNEL_RELEASE, 1);
	struct succession succession = { 0 };

	submit(&line, answered);
	submit(&line, sent);
	EXCHANGE(&line, 1);
	expect_all_ok(answered);
	line.keeper = fd_close(line.keeper);
	expect_failure(&line, -ECONNRESET);
	submit(&line, without_keeper);
	connect_next(&line, &succession);
	submit(&line, before_ready);
	expect_dispatched(&line);
	expect_nothing_received(&line);
	ck_assert_uint_eq(succession.restored, 0);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(succession.restored, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		EXCHANGE(&line, 1);
		ck_assert_int_eq(received.calls[0].op, ops[i]);
	}
	expect_all_ok(sent);
	expect_all_ok(without_keeper);
	expect_all_ok(before_ready);
	ck_assert_uint_eq(succession.restored, 1);
}

TEST(restored_calls_come_first_in_order)
{
	LINE(line);
	BATCH(waiting, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_ADOPT, 120);
	int fds = count_open_fds();
	ino_t inodes[2];
	DEPOSITS(first, line, 2, inodes);
	struct succession succession = { .batch = first };

	first->next = second; /* submitted when that is done: behind all others */
	submit(&line, waiting);
	replace_with_ready(&line, &succession);
	expect_received(&line, 2);
	expect_deposits_received(inodes, 2);
	keeper_answers(&line);
	expect_received(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_REGISTER);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_all_ok(first);
	expect_all_ok(waiting);
	EXCHANGE(&line, 100, 20);
	ck_assert_int_eq(received.calls[0].op, KERNEL_ADOPT);
	expect_all_ok(second);
	ck_assert_int_eq(count_open_fds(), fds);
}

/* From the first call on. The fds of its answers are closed, and the fds of its calls are sent again. */
TEST(half_answered_batch_is_sent_again)
{
	LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, MESSAGE_FDS_MAX + 1);
	int fds = count_open_fds();
	ino_t inodes[MESSAGE_FDS_MAX + 1];
	DEPOSITS(deposits, line, MESSAGE_FDS_MAX + 1, inodes);
	struct succession succession = { 0 };

	submit(&line, batch);
	submit(&line, deposits);
	EXCHANGE(&line, MESSAGE_FDS_MAX);
	replace_keeper(&line, &succession);
	ck_assert_int_eq(count_open_fds(), fds + MESSAGE_FDS_MAX + 1);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	EXCHANGE(&line, MESSAGE_FDS_MAX, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_STREAM_NEW);
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++)
		ck_assert_int_ge(batch->calls[i].fd, 0);
	EXCHANGE(&line, MESSAGE_FDS_MAX);
	expect_deposits_received(inodes, MESSAGE_FDS_MAX);
	/* Now half of the deposits are answered. */
	replace_with_ready(&line, &succession);
	EXCHANGE(&line, MESSAGE_FDS_MAX);
	expect_deposits_received(inodes, MESSAGE_FDS_MAX);
	EXCHANGE(&line, 1);
	expect_deposits_received(inodes + MESSAGE_FDS_MAX, 1);
	ck_assert_uint_eq(deposits->done, 1);
}

TEST(restored_calls_are_cancelled_for_next_keeper)
{
	LINE(line);
	ino_t inodes[2];
	DEPOSITS(first, line, 2, inodes);
	DEPOSITS(again, line, 1, inodes);
	BATCH(waiting, line, KERNEL_REGISTER, 1);
	struct succession succession = { .batch = first };

	submit(&line, waiting);
	replace_with_ready(&line, &succession);
	expect_received(&line, 2);
	succession.batch = again;
	replace_keeper(&line, &succession);
	expect_cancelled(first);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	EXCHANGE(&line, 1);
	expect_deposits_received(inodes, 1);
	EXCHANGE(&line, 1);
	expect_all_ok(again);
	expect_all_ok(waiting);
}

TEST(keeper_of_other_kind_is_no_successor)
{
	for (unsigned i = 0; i < 2; i++) {
		LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, 1);
		struct kernel_facts facts = good_facts;
		struct succession succession = { 0 };

		submit(&line, batch);
		if (i == 0)
			facts.backend = BACKEND_STATUS_PAGE;
		else
			facts.page_bits--;
		replace_keeper(&line, &succession);
		keeper_sends_facts(&line, MESSAGE_READY, &facts);
		expect_failure(&line, -ESTALE);
		ck_assert_ptr_nonnull(strstr(line.kernel->facts.note, "than the one before"));
		ck_assert_uint_eq(line.kernel->facts.backend, BACKEND_ENABLE_ADDRESS);
		ck_assert_uint_eq(succession.restored, 0);
		expect_nothing_received(&line);
		kernel_cancel(line.kernel);
		expect_cancelled(batch);
	}
}

TEST(new_keepers_facts_except_limits_are_taken)
{
	LINE(line);
	struct kernel_facts facts = good_facts;
	struct succession succession = { 0 };

	facts.guarded = false;
	facts.deposits = true;
	facts.page_bits++;
	facts.capacity--;
	replace_keeper(&line, &succession);
	keeper_sends_facts(&line, MESSAGE_READY, &facts);
	expect_dispatched(&line);
	ck_assert(!line.kernel->facts.guarded);
	ck_assert(line.kernel->facts.deposits);
	ck_assert_uint_eq(line.kernel->facts.page_bits, good_facts.page_bits);
	ck_assert_uint_eq(line.kernel->facts.capacity, good_facts.capacity);
}

TEST(new_keeper_that_fails_gives_reason)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);
	struct succession succession = { 0 };

	submit(&line, batch);
	replace_keeper(&line, &succession);
	keeper_fails(&line, "no tracefs any more");
	expect_failure(&line, -ECONNREFUSED);
	ck_assert_str_eq(line.kernel->facts.note, "no tracefs any more");
	connect_next(&line, &succession);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(succession.restored, 1);
	EXCHANGE(&line, 1);
	expect_all_ok(batch);
}

TEST(new_keeper_must_be_ready_once)
{
	LINE(line);
	struct succession succession = { 0 };

	replace_keeper(&line, &succession);
	keeper_sends_answer(&line);
	expect_failure(&line, -EPROTO);
	connect_next(&line, &succession);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	keeper_is_ready(&line);
	expect_failure(&line, -EPROTO);
	ck_assert_uint_eq(succession.restored, 1);
}
