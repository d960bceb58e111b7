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

static int become_a_daemon(const struct userev_event *event, bool reuse)
{
	uint32_t payload = 7;
	int nobody = -1;
	char byte;

	close_all_fds();
	if (reuse)
		nobody = take_all_numbers(400);
	/* The first test notices it and reconnects. The event was on, and is on again. */
	while (!userev_enabled(event))
		usleep(1000);
	if (userev_write(event, &payload, sizeof(payload)) != sizeof(payload))
		return 2;
	return reuse && read(nobody, &byte, 1) >= 0 ? 3 : 0;
}

static void expect_that_a_daemonised_program_goes_on(bool reuse)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	uint32_t index, got;
	pid_t child;

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	fake_set(fake, keep_records = true);
	child = fork();
	if (child == 0)
		_exit(become_a_daemon(&event, reuse));
	expect_child_succeeds(child);
	ck_assert_int_eq(fake_record(fake, &index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(got, 7);
	ck_assert_uint_eq(index / FAKE_STREAM, 2);
	ck_assert_uint_eq(fake->hellos, 2);
	fake_set(fake, keep_records = false);
	userev_close(userev);
	fake_free(fake);
}

TEST(child_that_closes_fds_gets_new_ones)
{
	expect_that_a_daemonised_program_goes_on(false);
}

TEST(child_does_not_write_to_reused_fds)
{
	expect_that_a_daemonised_program_goes_on(true);
}

WITH_DAEMON(child_with_open_fds_needs_no_connection)
{
	static struct userev_event event;
	uint32_t index, got;
	pid_t child;

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 100; i++)
			userev_enabled(&event);
		_exit(userev_write(&event, "data", 4) == 4 && !(event.place.part.bit & USEREV_PENDING_) ? 0 : 1);
	}
	expect_child_succeeds(child);
	ck_assert_int_eq(fake_record(fake, &index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(fake->accepted, 1);
}

static int write_until_it_is_off(const struct userev_event *event)
{
	alarm(60);
	while (userev_enabled(event)) {
		userev_write(event, "data", 4);
		usleep(1000);
	}
	return 0;
}

WITH_DAEMON(child_without_daemon_is_off)
{
	static struct userev_event event;
	pid_t child;

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	child = fork();
	if (child == 0)
		_exit(write_until_it_is_off(&event));
	expect_child_succeeds(child);
}

TEST(close_leaves_a_reused_fd_open)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	int ends[2], number;

	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	number = stream_at(event.place)->fd;
	ck_assert_int_eq(dup2(ends[1], number), number);
	userev_close(userev);
	ck_assert_int_eq(fcntl(number, F_GETFD), 0);
	close(number);
	close(ends[0]);
	close(ends[1]);
	fake_free(fake);
}

/* Without regard to the files that the program has opened since. */
static void expect_that_a_reused_fd_is_noticed(bool connection)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };
	int ends[2], number;
	char byte;

	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	number = connection ? userev->connection.fd : stream_at(event.place)->fd;
	ck_assert_int_eq(dup2(ends[1], number), number);
	userev->unreported.too_big = 1;
	loss_report(userev);
	register_event(userev, &other, "other u32 number");
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
	userev_release(userev, &other);
	userev_close(userev);
	ck_assert_int_lt(read(ends[0], &byte, 1), 0);
	ck_assert_int_eq(fcntl(number, F_GETFD), 0);
	close(number);
	close(ends[0]);
	close(ends[1]);
	fake_free(fake);
}

TEST(call_notices_reused_connection_fd)
{
	expect_that_a_reused_fd_is_noticed(true);
}

TEST(call_notices_reused_stream_fd)
{
	expect_that_a_reused_fd_is_noticed(false);
}

WITH_DAEMON(write_to_closed_fd_brings_new_stream)
{
	static struct userev_event event;

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	close(stream_at(event.place)->fd);
	while (userev_write(&event, "data", 4) == 0)
		usleep(1000);
	ck_assert_uint_eq(fake->hellos, 2);
}

WITH_DAEMON(fds_have_high_numbers)
{
	static struct userev_event event;

	register_event(userev, &event, "event");
	ck_assert_int_ge(userev->connection.fd, 100);
	ck_assert_int_ge(stream_at(event.place)->fd, 100);
	ck_assert_int_ge(userev_fd(userev), 100);
}
