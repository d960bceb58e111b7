/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userev_poll(), userev_fd(), userev_watch(). */

#include "tests/unit/client/library/library_test.h"

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

WITH_DAEMON_ONLY(poll_fd_stays_same_across_daemons)
{
	int fd;

	session_answer_timeout_ms = 20;
	fake_set(hold = true);
	userev = open_library();
	register_event(&event, "event u32 number");
	fd = userev_fd(userev);
	ck_assert_int_ge(fd, 100);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert(!is_readable(fd, 0));
	fake_set(hold = false);
	for (int round = 0; round < 3; round++) {
		while (userev_poll(userev, 0) == -EAGAIN)
			ck_assert(is_readable(fd, -1));
		ck_assert(!is_readable(fd, 20));
		expect_alive(&event, "event");
		fake_stop();
		ck_assert(is_readable(fd, -1));
		ck_assert_int_eq(userev_poll(userev, 0), -ENOENT);
		/* A scan ends, too. */
		ck_assert(!is_readable(fd, 20));
		ck_assert_int_eq(userev_fd(userev), fd);
		fake_start();
		userev->not_before = 0;
	}
}

WITHOUT_DAEMON(poll_waits_for_answer_not_for_daemon)
{
	register_event(&event, "event u32 number");
	ck_assert_int_eq(userev_poll(userev, -1), -ENOENT);
	fake_start();
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	ck_assert_int_eq(userev_poll(userev, 0), 0);
	expect_alive(&event, "event");
}

static void expect_changed(const struct userev_event *changed)
{
	ck_assert_ptr_eq(userev_changed(userev), changed);
	ck_assert_ptr_null(userev_changed(userev));
}

/* The daemon sends CHANGED. */
static void expect_notice(void)
{
	fake_tell_changes();
	ck_assert(is_readable(userev_fd(userev), -1));
}

WITH_DAEMON(changed_returns_switched_events)
{
	static struct userev_event one, two, released;
	int fd;

	register_event(&one, "one u32 x");
	fake_switch("one", true);
	fd = userev_watch(userev);
	ck_assert_int_eq(fd, userev_fd(userev));
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	register_event(&released, "released u32 x");
	register_event(&two, "two u32 x");
	/* Events that were on before the call. */
	expect_changed(&one);
	ck_assert(!is_readable(fd, 20));

	fake_switch("one", false);
	fake_switch("two", true);
	fake_switch("released", true);
	expect_notice();
	ck_assert_ptr_eq(userev_changed(userev), &one);
	userev_release(userev, &released);
	expect_changed(&two);
	ck_assert(!userev_enabled(&one) && userev_enabled(&two));

	/* With another daemon the event is off, and watching continues. */
	fake_stop();
	ck_assert(is_readable(fd, -1));
	ck_assert_ptr_null(userev_changed(userev));
	fake_start();
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	ck_assert_ptr_eq(userev_changed(userev), &two);
	fake_switch("one", true);
	expect_notice();
	expect_changed(&one);
}

/* The old page's bit stays set until there is a new page. A failed write notices the end, and userev_changed() reports it. */
WITH_EVENT_ON(changed_returns_event_of_ended_daemon)
{
	ck_assert_int_ge(userev_watch(userev), 0);
	expect_changed(&event);
	fake_stop();
	ck_assert_ptr_null(userev_changed(userev));
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert(!userev_enabled(&event));
	expect_changed(&event);
	fake_start();
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	fake_switch("event", true);
	expect_changed(&event);
}

/* Each call processes a limited number of packets, so that other threads get the lock; the fd stays readable. */
WITH_DAEMON(flood_of_changes_is_taken_in_pieces)
{
	enum { CHANGES = 100 };
	unsigned entries = 0;
	int fd;

	register_event(&event, "event u32 x");
	fd = userev_watch(userev);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	for (unsigned i = 0; i < CHANGES; i++)
		fake_tell_changes();
	for (; is_readable(fd, 20); entries++)
		ck_assert_ptr_null(userev_changed(userev));
	ck_assert_uint_ge(entries, 2);
	ck_assert_uint_le(entries, CHANGES / 32 + 1);
}

WITH_DAEMON_ONLY(welcome_and_change_set_payload_max)
{
	fake_set(welcome.payload_max = 4);
	userev = open_library();
	register_event_on();
	ck_assert_int_eq(userev_write(&event, "1234", 4), 4);
	ck_assert_int_eq(userev_write(&event, "12345", 5), -E2BIG);
	ck_assert_int_ge(userev_watch(userev), 0);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	fake_set(welcome.payload_max = 3);
	expect_notice();
	ck_assert_ptr_eq(userev_changed(userev), &event);
	ck_assert_int_eq(userev_write(&event, "123", 3), 3);
	ck_assert_int_eq(userev_write(&event, "1234", 4), -E2BIG);
}

TEST(poll_without_declared_events_returns)
{
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	ck_assert_int_eq(userev_wait(-1), 0);
	ck_assert_int_eq(userev_connected(NULL), 0);
	ck_assert_int_eq(userev_fd(NULL), -ENOENT);
	ck_assert_int_eq(userev_watch(NULL), -ENOENT);
	ck_assert_ptr_null(userev_changed(NULL));
	ck_assert_uint_eq(userev_lost(NULL).too_big, 0);
	userev_seal(NULL);
}
