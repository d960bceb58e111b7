/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Shared by the tests of libuserev against a fake daemon. */

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "client/library/memory.h"
#include "client/library/open.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "client/library/session.h"
#include "tests/unit/client/library/fake_daemon.h"

#define NO_DAEMON "/tmp/userev-without-a-daemon/socket"

static inline void expect_off(const struct userev_event *event)
{
	ck_assert(!userev_enabled(event));
	ck_assert_int_eq(userev_write(event, "data", 4), 0);
	ck_assert_ptr_null(userev_event_name(event));
}

enum { EVENTS = 1000 };
static struct userev_event events[EVENTS];

/* Registrations of `events` as event0, event1 …, with descriptions of that length. */
static inline struct userev_registration *many(size_t n, size_t length)
{
	static struct userev_registration registrations[EVENTS];
	static char descriptions[EVENTS * (WIRE_DESCRIPTION_MAX + 1)];

	ck_assert_uint_le(n * (length + 1), sizeof(descriptions));
	memset(descriptions, 0, sizeof(descriptions));
	for (size_t i = 0; i < n; i++) {
		char *description = descriptions + i * (length + 1);
		int name_length = sprintf(description, "event%zu ", i);

		memset(description + name_length, 'x', length - (size_t)name_length);
		registrations[i] = (struct userev_registration){ .event = &events[i], .description = description };
	}
	return registrations;
}

/* Only tests the event. The suite's time limit ends this if it stays off. */
static inline void test_until_alive(const struct userev_event *event)
{
	while (!userev_event_name(event)) {
		ck_assert(!userev_enabled(event));
		usleep(1000);
	}
}

static inline void expect_child_succeeds(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* The child succeeds if the function returns 0 there. */
static inline void run_in_child(pid_t (*make_child)(void), int (*what)(void))
{
	pid_t child = make_child();

	if (child == 0)
		_exit(what());
	expect_child_succeeds(child);
}

/* The event can be switched on and off, and the daemon receives its record. */
static inline void expect_alive(struct userev_event *event, const char *name)
{
	uint32_t index, payload = 0x12345678, got = 0;

	fake_switch(name, true);
	ck_assert(userev_enabled(event));
	ck_assert_int_eq(userev_write(event, &payload, sizeof(payload)), sizeof(payload));
	ck_assert_int_eq(fake_record(&index, &got, sizeof(got)), sizeof(got));
	fake_lock();
	ck_assert_uint_eq(index % FAKE_STREAM, fake_bit(name, strlen(name)));
	fake_unlock();
	ck_assert_uint_eq(got, payload);
	fake_switch(name, false);
	ck_assert(!userev_enabled(event));
}

/* Of the test that is running, which closes and frees them at its end. */
static struct userev *userev;
static struct userev_event event _unused_, other _unused_;

static inline struct userev *open_library(void)
{
	struct userev *new = userev_open(fake_daemon->path, 0);

	ck_assert_ptr_nonnull(new);
	return new;
}

static inline void register_event(struct userev_event *new, const char *description)
{
	ck_assert_int_eq(userev_register(userev, new, description, 0), 0);
}

static inline void expect_connected(void)
{
	ck_assert_int_eq(userev_connected(userev), 0);
}

static inline void close_library(void)
{
	userev_close(userev);
	userev = NULL;
}

/* The daemon has received the number of these lost records, at the end of that many connections. */
static inline void expect_reported(unsigned ended, uint64_t queue_full, uint64_t too_big)
{
	fake_wait(fake_daemon->ended == ended);
	ck_assert_uint_eq(fake_daemon->lost.queue_full, queue_full);
	ck_assert_uint_eq(fake_daemon->lost.too_big, too_big);
}

/* Registers `event`, and switches it on. */
static inline void register_event_on(void)
{
	register_event(&event, "event u32 number");
	fake_switch("event", true);
}

static inline void library_test_begin(bool starts, bool opens)
{
	fake_new();
	if (starts)
		fake_start();
	setenv("USEREV_SOCKET", fake_daemon->path, 1);
	userev = opens ? open_library() : NULL;
}

static inline void library_test_end(void)
{
	close_library();
	userev_close(open_resolve(NULL));
	fake_free();
}

/*
 * A test with a daemon, or with none yet, and with `userev` opened, or not yet, and `event` on, or not. Other events of the test must be
 * static, because the userev is closed after the test's function has returned.
 */
#define LIBRARY_TEST(name, starts, opens, on)                                                                          \
	static void name##_body(void);                                                                                 \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		library_test_begin(starts, opens);                                                                     \
		if (on)                                                                                                \
			register_event_on();                                                                           \
		name##_body();                                                                                         \
		library_test_end();                                                                                    \
	}                                                                                                              \
	END_TEST                                                                                                       \
	static void name##_body(void)
#define WITH_EVENT_ON(name)    LIBRARY_TEST(name, true, true, true)
#define WITH_DAEMON(name)      LIBRARY_TEST(name, true, true, false)
#define WITH_DAEMON_ONLY(name) LIBRARY_TEST(name, true, false, false)
#define WITHOUT_DAEMON(name)   LIBRARY_TEST(name, false, true, false)
