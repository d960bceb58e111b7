/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Shared by the tests of libuserev against a fake daemon. */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "client/library/loss.h"
#include "client/library/memory.h"
#include "client/library/open.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/session.h"
#include "tests/unit/client/library/fake_daemon.h"

/*
 * A test with a fake daemon, and a userev that is connected to it. Events of the test must be static, because the userev is closed
 * after the test's function has returned.
 */
#define WITH_DAEMON(name)                                                                                              \
	static void name##_body(struct fake *fake, struct userev *userev);                                             \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		struct fake *fake = start();                                                                           \
		struct userev *userev = open_to(fake);                                                                 \
                                                                                                                       \
		name##_body(fake, userev);                                                                             \
		userev_close(userev);                                                                                  \
		fake_free(fake);                                                                                       \
	}                                                                                                              \
	END_TEST                                                                                                       \
	static void name##_body(struct fake *fake _unused_, struct userev *userev _unused_)

#define NO_DAEMON "/tmp/userev-client-where-nobody-is/socket"

static inline void expect_off(const struct userev_event *event)
{
	ck_assert(!userev_enabled(event));
	ck_assert_int_eq(userev_write(event, "data", 4), 0);
	ck_assert_ptr_null(userev_event_name(event));
}

static inline struct userev_registration *many(struct userev_event *event, size_t n, size_t length)
{
	struct userev_registration *registrations = calloc(n, sizeof(*registrations));

	for (size_t i = 0; i < n; i++) {
		char *description = malloc(length + 1);
		char name[32];
		int name_length = snprintf(name, sizeof(name), "event%zu ", i);

		ck_assert_ptr_nonnull(description);
		memset(description, 'x', length);
		memcpy(description, name, (size_t)name_length);
		description[length] = '\0';
		registrations[i] = (struct userev_registration){ .event = &event[i], .description = description };
	}
	return registrations;
}

static inline void free_many(struct userev_registration *registrations, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)registrations[i].description);
	free(registrations);
}

static inline void register_event(struct userev *userev, struct userev_event *event, const char *description)
{
	ck_assert_int_eq(userev_register(userev, event, description, 0), 0);
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
