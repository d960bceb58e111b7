/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs that close or reuse the library's fds. */

#include "tests/unit/client/library/library_test.h"

/* Closes all fds, as a program that becomes a daemon does. With `reuse` other files get the library's numbers. */
static int become_a_daemon(bool reuse)
{
	uint32_t payload = 7;
	int ends[2] = { -1, -1 };
	char byte;

	closefrom(3);
	if (reuse && pipe2(ends, O_NONBLOCK) < 0)
		return 1;
	for (int fd = 5; reuse && fd < 400; fd++)
		dup2(ends[1], fd);
	/* The first test of the event notices it and reconnects. The event was on, and is on again. */
	while (!userev_enabled(&event))
		usleep(1000);
	if (userev_write(&event, &payload, sizeof(payload)) != sizeof(payload))
		return 2;
	return reuse && read(ends[0], &byte, 1) >= 0 ? 3 : 0;
}

WITH_EVENT_ON(child_replaces_closed_and_reused_fds)
{
	uint32_t index, got;

	fake_set(keep_records = true);
	for (unsigned reuse = 0; reuse <= 1; reuse++) {
		pid_t child = fork();

		if (child == 0)
			_exit(become_a_daemon(reuse));
		expect_child_succeeds(child);
		ck_assert_int_eq(fake_record(&index, &got, sizeof(got)), sizeof(got));
		ck_assert_uint_eq(got, 7);
		ck_assert_uint_eq(index / FAKE_STREAM, 2 + reuse);
		ck_assert_uint_eq(fake_daemon->hellos, 2 + reuse);
	}
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

WITH_EVENT_ON(close_leaves_a_reused_fd_open)
{
	int number, other_end;

	number = stream_at(event.place)->fd;
	other_end = reuse(number);
	close_library();
	expect_untouched(number, other_end);
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
