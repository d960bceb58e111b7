/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Fds that go with calls and answers, also where there is no room for them. */

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/unit/kernel/rpc/line.h"
#include "tests/unit/shortage.h"

/* Of all programs of this user together. */
static bool too_many_in_flight, no_memory;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if ((!too_many_in_flight || message->msg_controllen == 0) && !no_memory)
		return syscall(SYS_sendmsg, fd, message, flags);
	errno = no_memory ? ENOMEM : ETOOMANYREFS;
	return -1;
}

TEST(fds_go_to_their_calls)
{
	LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 21);
	ino_t inodes[21] = { 0 };
	size_t answered = 0;

	for (size_t i = 0; i < batch->n; i += 2)
		batch->calls[i].op = KERNEL_RELEASE;
	submit(&line, batch);
	while (answered < batch->n) {
		ck_assert(keeper_receives(&line));
		for (size_t i = 0; i < received.n; i++) {
			answer_well(&received.calls[i]);
			if (received.calls[i].fd >= 0)
				inodes[answered + i] = inode_of(received.calls[i].fd);
		}
		/* One of them failed; the calls behind it get their fds all the same. */
		if (answered == 0) {
			received.calls[5].result = -ENOMEM;
			received.calls[5].fd = fd_close(received.calls[5].fd);
		}
		answered += received.n;
		send_answers(&line, received.calls, received.n);
		expect_dispatched(&line);
	}
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++) {
		bool gets = i % 2 && i != 5;

		ck_assert_int_eq(batch->calls[i].fd >= 0, gets);
		if (gets) {
			ck_assert_uint_eq(inode_of(batch->calls[i].fd), inodes[i]);
			ck_assert_int_eq(fcntl(batch->calls[i].fd, F_GETFD), FD_CLOEXEC);
		}
	}
}

/* --- a daemon without fds --- */

static void limit_fds(rlim_t number)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(number, limit.rlim_max);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* With room for exactly so many more fds. */
static int dispatch_with_fds(const struct line *line, size_t room)
{
	int number = 0, r;

	while (room > 0)
		room -= fcntl(number++, F_GETFD) < 0;
	limit_fds((rlim_t)number);
	r = kernel_dispatch(line->kernel);
	limit_fds(RLIM_INFINITY);
	return r;
}

static const struct kernel_call things[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 1 },	{ .op = KERNEL_STREAM_NEW, .page = 1, .stream = 2 },
	{ .op = KERNEL_REGISTER, .stream = 2 }, { .op = KERNEL_STREAM_NEW, .page = 1, .stream = 3 },
	{ .op = KERNEL_REGISTER, .stream = 3 }, { .op = KERNEL_PAGE_NEW, .page = 4 },
};

enum { FDS_OF_THINGS = 4 };

/* Only the first ones got their fd. */
static void expect_things(const struct batch *batch, size_t room)
{
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++) {
		const struct kernel_call *call = &batch->calls[i];
		bool gets = message_op(call->op)->gives_fd && room > 0;

		room -= gets;
		ck_assert_int_eq(call->fd >= 0, gets);
		ck_assert_int_eq(call->result, gets || call->op == KERNEL_REGISTER ? KERNEL_OK : -EMFILE);
	}
}

/* The keeper has to free the others from the last one on: nothing may refer to a page that is freed. */
static void expect_freed(const struct line *line, size_t lost)
{
	static const struct kernel_call frees[FDS_OF_THINGS] = {
		{ .op = KERNEL_PAGE_FREE, .page = 4 },
		{ .op = KERNEL_STREAM_FREE, .page = 1, .stream = 3 },
		{ .op = KERNEL_STREAM_FREE, .page = 1, .stream = 2 },
		{ .op = KERNEL_PAGE_FREE, .page = 1 },
	};

	if (lost > 0) {
		EXCHANGE(line, lost);
		for (size_t i = 0; i < lost; i++) {
			ck_assert_int_eq(received.calls[i].op, frees[i].op);
			ck_assert_uint_eq(received.calls[i].page, frees[i].page);
			ck_assert_uint_eq(received.calls[i].stream, frees[i].stream);
		}
	}
	expect_nothing_received(line);
}

TEST(lost_fd_fails_its_call_and_is_undone)
{
	for (size_t room = 0; room <= FDS_OF_THINGS; room++) {
		LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, ARRAY_SIZE(things));
		BATCH(later, line, KERNEL_STREAM_NEW, 1);
		int fds = count_open_fds();

		memcpy(batch->calls, things, sizeof(things));
		submit(&line, batch);
		expect_received(&line, ARRAY_SIZE(things));
		keeper_answers(&line);
		ck_assert_int_eq(dispatch_with_fds(&line, room), 0);
		expect_things(batch, room);
		ck_assert_int_eq(count_open_fds(), fds + (int)room);
		expect_freed(&line, FDS_OF_THINGS - room);
		submit(&line, later);
		EXCHANGE(&line, 1);
		expect_all_ok(later);
	}
}

/* The caller may ask for the same page again. */
TEST(lost_fd_is_undone_before_done)
{
	LINE(line);
	BATCH(first, line, KERNEL_PAGE_NEW, 1);
	BATCH(second, line, KERNEL_PAGE_NEW, 1);

	first->next = second;
	submit(&line, first);
	expect_received(&line, 1);
	keeper_answers(&line);
	ck_assert_int_eq(dispatch_with_fds(&line, 0), 0);
	EXCHANGE(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_PAGE_FREE);
	EXCHANGE(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_PAGE_NEW);
	expect_results(first, 0, 1, -EMFILE);
	expect_all_ok(second);
}

TEST(lost_copy_of_an_fd_needs_no_undoing)
{
	LINE(line);
	BATCH(batch, line, KERNEL_STREAM_FETCH, 3);

	batch->calls[1].op = KERNEL_PAGE_FETCH;
	batch->calls[2].op = KERNEL_DEPOSITED;
	submit(&line, batch);
	expect_received(&line, 3);
	keeper_answers(&line);
	ck_assert_int_eq(dispatch_with_fds(&line, 1), 0);
	ck_assert_int_ge(batch->calls[0].fd, 0);
	for (size_t i = 1; i < 3; i++)
		ck_assert_int_eq(batch->calls[i].result, -EMFILE);
	expect_nothing_received(&line);
}

/* --- fds of calls --- */

TEST(fds_of_failed_calls_are_closed)
{
	LINE(line);
	int fds = count_open_fds();
	ino_t inodes[3];
	DEPOSITS(unsent, line, 3, inodes);
	DEPOSITS(batch, line, 3, inodes);
	struct kernel_call call = { .op = KERNEL_DEPOSIT, .fd = new_fd() };

	memory_comes_back = true;
	allocations_left = 0;
	submit(&line, unsent);
	expect_results(unsent, 0, 3, -ENOMEM);
	submit(&line, batch);
	kernel_tell(line.kernel, call);
	kernel_cancel(line.kernel);
	expect_cancelled(batch);
	call.fd = new_fd();
	kernel_tell(line.kernel, call);
	while (keeper_receives(&line))
		;
	ck_assert_int_eq(count_open_fds(), fds);
}

/* --- too many fds in flight --- */

/* As the daemon's timer does. */
static void retry(const struct line *line)
{
	too_many_in_flight = false;
	usleep(30000);
	expect_dispatched(line);
	ck_assert(!line->kernel->stalled);
}

TEST(calls_are_sent_later_after_too_many_references)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);
	int fds = count_open_fds();

	batch->calls[1] = (struct kernel_call){ .op = KERNEL_DEPOSIT, .index = 1, .fd = new_fd() };
	too_many_in_flight = true;
	submit(&line, batch);
	ck_assert(line.kernel->stalled);
	expect_nothing_received(&line);
	expect_dispatched(&line);
	ck_assert(line.kernel->stalled);
	retry(&line);
	EXCHANGE(&line, 3);
	ck_assert_uint_eq(received.n_fds, 1);
	expect_all_ok(batch);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(deposit_that_waits_holds_up_nothing_else)
{
	LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);
	int fds = count_open_fds();

	too_many_in_flight = true;
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = 7, .fd = new_fd() });
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_WITHDRAW, .number = 7, .fd = -1 });
	submit(&line, batch);
	ck_assert(line.kernel->stalled);
	EXCHANGE(&line, 3);
	expect_all_ok(batch);
	retry(&line);
	EXCHANGE(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_DEPOSIT);
	EXCHANGE(&line, 1);
	ck_assert_int_eq(received.calls[0].op, KERNEL_WITHDRAW);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(deposit_that_waits_ends_with_its_keeper)
{
	LINE(line);
	int fds = count_open_fds();

	too_many_in_flight = true;
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = 7, .fd = new_fd() });
	ck_assert(line.kernel->stalled);
	kernel_cancel(line.kernel);
	ck_assert(!line.kernel->stalled);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(packet_without_memory_waits_for_answers)
{
	LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 1);

	submit(&line, first);
	no_memory = true;
	submit(&line, second);
	no_memory = false;
	EXCHANGE(&line, 1, 1);
	expect_all_ok(first);
	expect_all_ok(second);
}
