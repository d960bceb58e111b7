/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs that close or reuse the library's fds. */

#include "tests/unit/client/library/library_test.h"

/* Closes all fds, as a program that becomes a daemon does. Other files get the library's numbers. */
static int become_a_daemon(void)
{
	uint32_t payload = 7;
	int ends[2];
	char byte;

	closefrom(3);
	if (pipe2(ends, O_NONBLOCK) < 0)
		return 1;
	for (int fd = 5; fd < 400; fd++)
		dup2(ends[1], fd);
	/* The first test of the event notices it and reconnects. The event was on, and is on again. */
	while (!userev_enabled(&event))
		usleep(1000);
	if (userev_write(&event, &payload, sizeof(payload)) != sizeof(payload))
		return 2;
	return read(ends[0], &byte, 1) >= 0 ? 3 : 0;
}

WITH_EVENT_ON(child_replaces_reused_fds)
{
	uint32_t index, got;

	fake_set(keep_records = true);
	run_in_child(fork, become_a_daemon);
	ck_assert_int_eq(fake_record(&index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(got, 7);
	ck_assert_uint_eq(index / FAKE_STREAM, 2);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
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

WITH_EVENT_ON(close_leaves_reused_fds_open)
{
	const int numbers[] = { stream_at(event.place)->fd, userev->connection.fd },
		  other_ends[] = { reuse(numbers[0]), reuse(numbers[1]) };

	close_library();
	expect_untouched(numbers[0], other_ends[0]);
	expect_untouched(numbers[1], other_ends[1]);
}

WITH_DAEMON_ONLY(call_notices_reused_fd)
{
	for (int of_stream = 0; of_stream <= 1; of_stream++) {
		int number, other_end;

		userev = open_library();
		register_event(&event, "event u32 number");
		number = of_stream ? stream_at(event.place)->fd : userev->connection.fd;
		other_end = reuse(number);
		loss_add(userev, &userev->losses.too_big);
		loss_report(userev);
		register_event(&other, "other u32 number");
		expect_alive(&event, "event");
		expect_alive(&other, "other");
		userev_release(userev, &other);
		close_library();
		expect_untouched(number, other_end);
	}
}

WITH_EVENT_ON(write_to_closed_fd_brings_new_stream)
{
	close(stream_at(event.place)->fd);
	while (userev_write(&event, "data", 4) == 0)
		usleep(1000);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
}
