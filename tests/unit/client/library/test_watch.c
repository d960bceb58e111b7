/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userev_poll(), userev_fd(), userev_watch(). */

#include "tests/unit/client/library/library_test.h"

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

TEST(poll_fd_stays_same_across_daemons)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int fd;

	session_answer_timeout_ms = 20;
	fake_set(fake, hold = true);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 number");
	fd = userev_fd(userev);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert(!is_readable(fd, 0));
	fake_set(fake, hold = false);
	for (int round = 0; round < 3; round++) {
		while (userev_poll(userev, 0) == -EAGAIN)
			ck_assert(is_readable(fd, -1));
		ck_assert(!is_readable(fd, 20));
		expect_alive(fake, &event, "event");
		fake_stop(fake);
		ck_assert(is_readable(fd, -1));
		ck_assert_int_eq(userev_poll(userev, 0), -ENOENT);
		/* A scan ends, too. */
		ck_assert(!is_readable(fd, 20));
		ck_assert_int_eq(userev_fd(userev), fd);
		fake_start(fake);
		userev->not_before = 0;
	}
	userev_close(userev);
	fake_free(fake);
}

TEST(poll_waits_for_answer_not_for_daemon)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(userev_poll(userev, -1), -ENOENT);
	fake_start(fake);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	ck_assert_int_eq(userev_poll(userev, 0), 0);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

TEST(changed_returns_switched_events)
{
	struct fake *fake = fake_new();
	struct userev_event one = { 0 }, two = { 0 }, released = { 0 };
	struct userev *userev;
	int fd;

	fake->welcome.features = WIRE_FEATURE_WATCH;
	fake_start(fake);
	userev = open_to(fake);
	register_event(userev, &one, "one u32 x");
	fake_switch(fake, "one", true);
	fd = userev_watch(userev);
	ck_assert_int_eq(fd, userev_fd(userev));
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	register_event(userev, &released, "released u32 x");
	register_event(userev, &two, "two u32 x");
	/* Events that were on before the call. */
	ck_assert_ptr_eq(userev_changed(userev), &one);
	ck_assert_ptr_null(userev_changed(userev));
	ck_assert(!is_readable(fd, 20));

	fake_switch(fake, "one", false);
	fake_switch(fake, "two", true);
	fake_switch(fake, "released", true);
	fake_tell_changes(fake);
	ck_assert(is_readable(fd, -1));
	ck_assert_ptr_eq(userev_changed(userev), &one);
	userev_release(userev, &released);
	ck_assert_ptr_eq(userev_changed(userev), &two);
	ck_assert_ptr_null(userev_changed(userev));
	ck_assert(!userev_enabled(&one) && userev_enabled(&two));

	/* With another daemon the event is off, and watching continues. */
	fake_stop(fake);
	ck_assert(is_readable(fd, -1));
	ck_assert_ptr_eq(userev_changed(userev), NULL);
	fake_start(fake);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	ck_assert_ptr_eq(userev_changed(userev), &two);
	fake_switch(fake, "one", true);
	fake_tell_changes(fake);
	ck_assert(is_readable(fd, -1));
	ck_assert_ptr_eq(userev_changed(userev), &one);
	ck_assert_ptr_null(userev_changed(userev));
	userev_close(userev);
	fake_free(fake);
}

/* The old page's bit stays set until there is a new page. A failed write notices the end, and userev_changed() reports it. */
TEST(changed_returns_event_of_ended_daemon)
{
	struct fake *fake = fake_new();
	struct userev_event event = { 0 };
	struct userev *userev;

	fake->welcome.features = WIRE_FEATURE_WATCH;
	fake_start(fake);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 x");
	fake_switch(fake, "event", true);
	ck_assert_int_ge(userev_watch(userev), 0);
	ck_assert_ptr_eq(userev_changed(userev), &event);
	ck_assert_ptr_null(userev_changed(userev));
	fake_stop(fake);
	ck_assert_ptr_null(userev_changed(userev));
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert(!userev_enabled(&event));
	ck_assert_ptr_eq(userev_changed(userev), &event);
	ck_assert_ptr_null(userev_changed(userev));
	fake_start(fake);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	fake_switch(fake, "event", true);
	ck_assert_ptr_eq(userev_changed(userev), &event);
	ck_assert_ptr_null(userev_changed(userev));
	userev_close(userev);
	fake_free(fake);
}

/* Each call processes a limited number of packets, so that other threads get the lock; the fd stays readable. */
TEST(flood_of_changes_is_taken_in_pieces)
{
	enum { CHANGES = 100 };
	struct fake *fake = fake_new();
	struct userev_event event = { 0 };
	struct userev *userev;
	unsigned entries = 0;
	int fd;

	fake->welcome.features = WIRE_FEATURE_WATCH;
	fake_start(fake);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 x");
	fd = userev_watch(userev);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	for (unsigned i = 0; i < CHANGES; i++)
		fake_tell_changes(fake);
	for (; is_readable(fd, 20); entries++)
		ck_assert_ptr_null(userev_changed(userev));
	ck_assert_uint_ge(entries, 2);
	ck_assert_uint_le(entries, CHANGES / 32 + 1);
	userev_close(userev);
	fake_free(fake);
}

TEST(change_updates_payload_max)
{
	struct fake *fake = fake_new();
	struct userev_event event = { 0 };
	struct userev *userev;

	fake->welcome.features = WIRE_FEATURE_WATCH;
	fake_start(fake);
	userev = open_to(fake);
	register_event(userev, &event, "event");
	ck_assert_int_ge(userev_watch(userev), 0);
	ck_assert_int_eq(userev_poll(userev, -1), 0);
	fake_switch(fake, "event", true);
	fake_set(fake, welcome.payload_max = 3);
	fake_tell_changes(fake);
	ck_assert(is_readable(userev_fd(userev), -1));
	ck_assert_ptr_eq(userev_changed(userev), &event);
	ck_assert_int_eq(userev_write(&event, "123", 3), 3);
	ck_assert_int_eq(userev_write(&event, "1234", 4), -E2BIG);
	userev_close(userev);
	fake_free(fake);
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
