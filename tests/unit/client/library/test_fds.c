/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs that close or reuse the library's fds. */

#include "tests/unit/client/library/library_test.h"

static void close_all_fds(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 3; fd < (int)MIN(limit.rlim_cur, (rlim_t)2000); fd++)
		close(fd);
}

/* Other files get the library's fd numbers. */
static int take_all_numbers(int below)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK) < 0)
		_exit(90);
	for (int fd = ends[1] + 1; fd < below; fd++)
		dup2(ends[1], fd);
	return ends[0];
}

static int go_on(void)
{
	/* The first test of the event notices it and reconnects. The event was on, and is on again. */
	while (!userev_enabled(&event))
		usleep(1000);
	return userev_write(&event, "data", 4) == 4 ? 0 : 2;
}

static int become_a_daemon(void)
{
	close_all_fds();
	return go_on();
}

static int become_a_daemon_with_fds(void)
{
	int other_file;

	close_all_fds();
	other_file = take_all_numbers(400);
	return go_on() != 0 || read(other_file, &(char){ 0 }, 1) >= 0 ? 3 : 0;
}

static void expect_daemonised_program_goes_on(int (*daemonise)(void))
{
	fake_set(keep_records = true);
	run_in_child(fork, daemonise);
	expect_record(2, "data", 4);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
}

WITH_EVENT_ON(child_that_closes_fds_gets_new_ones)
{
	expect_daemonised_program_goes_on(become_a_daemon);
}

WITH_EVENT_ON(child_does_not_write_to_reused_fds)
{
	expect_daemonised_program_goes_on(become_a_daemon_with_fds);
}

static int test_and_write(void)
{
	for (int i = 0; i < 100; i++)
		userev_enabled(&event);
	return userev_write(&event, "data", 4) == 4 && !(event.place.part.bit & USEREV_PENDING_) ? 0 : 1;
}

WITH_EVENT_ON(child_with_open_fds_needs_no_connection)
{
	run_in_child(fork, test_and_write);
	expect_record(1, "data", 4);
	ck_assert_uint_eq(fake_daemon->accepted, 1);
}

static int write_until_off(void)
{
	alarm(60);
	for (; userev_enabled(&event); usleep(1000))
		userev_write(&event, "data", 4);
	return 0;
}

WITH_EVENT_ON(child_without_daemon_is_off)
{
	fake_stop();
	run_in_child(fork, write_until_off);
}

/* Another file of the program gets this number. The result is the other end of that file. */
static int reuse(int number)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(dup2(ends[1], number), number);
	close(ends[1]);
	return ends[0];
}

/* The library has not written to the program's file, and has not closed it. */
static void expect_untouched(int number, int other_end)
{
	char byte;

	ck_assert_int_lt(read(other_end, &byte, 1), 0);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(fcntl(number, F_GETFD), 0);
	close(number);
	close(other_end);
}

WITH_DAEMON(close_leaves_a_reused_fd_open)
{
	int number, other_end;

	register_event(&event, "event u32 number");
	number = stream_at(event.place)->fd;
	other_end = reuse(number);
	close_library();
	expect_untouched(number, other_end);
}

static void expect_reuse_is_noticed(int number)
{
	int other_end = reuse(number);

	loss_add(userev, &userev->losses.too_big);
	loss_report(userev);
	register_event(&other, "other u32 number");
	expect_alive(&event, "event");
	expect_alive(&other, "other");
	userev_release(userev, &other);
	close_library();
	expect_untouched(number, other_end);
}

WITH_DAEMON(call_notices_reused_connection_fd)
{
	register_event(&event, "event u32 number");
	expect_reuse_is_noticed(userev->connection.fd);
}

WITH_DAEMON(call_notices_reused_stream_fd)
{
	register_event(&event, "event u32 number");
	expect_reuse_is_noticed(stream_at(event.place)->fd);
}

WITH_EVENT_ON(write_to_closed_fd_brings_new_stream)
{
	close(stream_at(event.place)->fd);
	while (userev_write(&event, "data", 4) == 0)
		usleep(1000);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
}
