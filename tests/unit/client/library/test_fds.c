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

static int become_a_daemon(bool reuse)
{
	uint32_t payload = 7;
	int other_file = -1;
	char byte;

	close_all_fds();
	if (reuse)
		other_file = take_all_numbers(400);
	/* The first test of the event notices it and reconnects. The event was on, and is on again. */
	while (!userev_enabled(&event))
		usleep(1000);
	if (userev_write(&event, &payload, sizeof(payload)) != sizeof(payload))
		return 2;
	return reuse && read(other_file, &byte, 1) >= 0 ? 3 : 0;
}

static void expect_daemonised_program_goes_on(bool reuse)
{
	uint32_t index, got;
	pid_t child;

	register_event(&event, "event u32 number");
	fake_switch("event", true);
	fake_set(keep_records = true);
	child = fork();
	if (child == 0)
		_exit(become_a_daemon(reuse));
	expect_child_succeeds(child);
	ck_assert_int_eq(fake_record(&index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(got, 7);
	ck_assert_uint_eq(index / FAKE_STREAM, 2);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
}

WITH_DAEMON(child_that_closes_fds_gets_new_ones)
{
	expect_daemonised_program_goes_on(false);
}

WITH_DAEMON(child_does_not_write_to_reused_fds)
{
	expect_daemonised_program_goes_on(true);
}

WITH_EVENT_ON(child_with_open_fds_needs_no_connection)
{
	uint32_t index, got;
	pid_t child;

	child = fork();
	if (child == 0) {
		for (int i = 0; i < 100; i++)
			userev_enabled(&event);
		_exit(userev_write(&event, "data", 4) == 4 && !(event.place.part.bit & USEREV_PENDING_) ? 0 : 1);
	}
	expect_child_succeeds(child);
	ck_assert_int_eq(fake_record(&index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(fake_daemon->accepted, 1);
}

WITH_EVENT_ON(child_without_daemon_is_off)
{
	pid_t child;

	fake_stop();
	child = fork();
	if (child == 0) {
		alarm(60);
		for (; userev_enabled(&event); usleep(1000))
			userev_write(&event, "data", 4);
		_exit(0);
	}
	expect_child_succeeds(child);
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

WITH_DAEMON(fds_have_high_numbers)
{
	register_event(&event, "event");
	ck_assert_int_ge(userev->connection.fd, 100);
	ck_assert_int_ge(stream_at(event.place)->fd, 100);
	ck_assert_int_ge(userev_fd(userev), 100);
}
