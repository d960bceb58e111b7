/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Declared events in programs that fork, exec, close fds, and so on (static_program.c). */

#include <stdio.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

static pid_t run(const struct fixture *fixture, const char *role, const char *argument)
{
	const char *const options[] = { role, argument, NULL };

	setenv("USEREV_SOCKET", fixture->socket, 1);
	/* LeakSanitizer does not work after chroot() or under seccomp. */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	return start_program("tests/static_program", NULL, options, NULL, 0, NULL);
}

static uint64_t records(struct fixture *fixture, const char *event)
{
	struct seen seen;

	see(fixture, event, &seen);
	return seen.records;
}

/* A process that calls exec releases the event and registers it again. */
static void switch_on(struct fixture *fixture, const char *event)
{
	ck_assert(eventually(event_number(fixture, event, "holders_total") > 0));
	ck_assert(eventually(trace(fixture, event, true) == 1));
}

static void expect_records(struct fixture *fixture, const char *event, uint64_t expected)
{
	ck_assert(eventually(records(fixture, event) == expected));
	trace(fixture, event, false);
}

/* The event is on in each process of the program, and each emits once. */
#define PROGRAM_TEST(name, role, expected)                                                                             \
	DAEMON_TEST(name)                                                                                              \
	{                                                                                                              \
		pid_t child = run(fixture, role, NULL);                                                                \
                                                                                                                       \
		switch_on(fixture, "program_tick");                                                                    \
		await_success(child);                                                                                  \
		expect_records(fixture, "program_tick", expected);                                                     \
	}

PROGRAM_TEST(declared_event_is_emitted, "plain", 1)
PROGRAM_TEST(parent_and_child_emit_after_fork, "fork", 2)
PROGRAM_TEST(parent_and_child_emit_after_vfork, "vfork", 2)
PROGRAM_TEST(program_emits_after_exec, "exec", 1)
PROGRAM_TEST(daemonized_program_with_closed_fds_emits, "daemon", 1)
PROGRAM_TEST(program_emits_after_closing_all_fds, "close", 1)
PROGRAM_TEST(program_emits_after_setuid, "setuid", 1)
PROGRAM_TEST(program_emits_after_chroot, "chroot", 1)
/* At its end a program of `make coverage` writes its counts, by calls that this one has forbidden itself. */
#ifndef _exit
PROGRAM_TEST(sealed_program_under_seccomp_emits, "seccomp", 1)
#endif
PROGRAM_TEST(short_lived_threads_emit, "threads", 200)
PROGRAM_TEST(watching_program_is_notified_of_enabled_event, "watch", 1)

/* The library connects and is granted its events in a handler that mostly interrupts malloc(). */
DAEMON_TEST(event_is_granted_in_a_signal_handler)
{
	char later[sizeof(fixture->socket)];
	pid_t child;

	snprintf(later, sizeof(later), "%.90s-", fixture->socket);
	ck_assert_int_eq(rename(fixture->socket, later), 0);
	child = run(fixture, "handler", NULL);
	usleep(100000);
	ck_assert_int_eq(rename(later, fixture->socket), 0);
	switch_on(fixture, "program_tick");
	await_success(child);
	expect_records(fixture, "program_tick", 1);
}

static void expect_record(struct fixture *fixture, const char *event, const char *expected)
{
	struct seen seen;

	ck_assert(eventually((see(fixture, event, &seen), seen.records == 1)));
	expect_record_text(&seen, expected);
	trace(fixture, event, false);
}

DAEMON_TEST(field_of_each_kind_arrives_unchanged)
{
	pid_t child = run(fixture, "kinds", NULL);
	switch_on(fixture, "program_kinds");
	switch_on(fixture, "program_nothing");
	await_success(child);
	expect_record(fixture, "program_kinds",
		      "a=255 b=-1 comm=\"abc\" c=65535 d=-2 where=01000000ffffffff e=7 f=-7 "
		      "part_f32=0.5 load_f64=-2 text=\"some text\" data=[1,2] "
		      "g=18446744073709551615 h=-9223372036854775808 full=\"wxyz\" none=\"(null)\"");
	expect_record(fixture, "program_nothing", "");
}

DAEMON_TEST(large_and_small_fields_are_one_record)
{
	char block[2 * 260 + 1], text[300], expected[2048];
	pid_t child = run(fixture, "large", NULL);

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = "62"[i % 2];
	block[sizeof(block) - 1] = '\0';
	memset(text, 't', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	switch_on(fixture, "program_large");
	await_success(child);
	snprintf(expected, sizeof(expected),
		 "a=1 name=\"name\" b=2 block=%s c=3 more=\"more\" d=4 text=\"%s\" data=[5] last=\"last\"", block,
		 text);
	expect_record(fixture, "program_large", expected);
}

DAEMON_TEST(short_program_may_wait_for_its_events)
{
	setenv("USEREV_WAIT", "60000", 1);
	await_success(run(fixture, "ready", NULL));
	unsetenv("USEREV_WAIT");
}

DAEMON_TEST(event_of_program_and_library_is_one_event)
{
	pid_t child = run(fixture, "library", NULL);
	switch_on(fixture, "static_shared");
	switch_on(fixture, "library_tick");
	switch_on(fixture, "program_tick");
	await_success(child);
	expect_records(fixture, "library_tick", 1);
	expect_records(fixture, "static_shared", 2);
	trace(fixture, "program_tick", false);
}

DAEMON_TEST(library_may_be_loaded_and_closed_repeatedly)
{
	char library[256];
	pid_t child;

	snprintf(library, sizeof(library), "%s", built("tests/static_plugin.so"));
	child = run(fixture, "load", library);
	switch_on(fixture, "plugin_tick");
	ck_assert(eventually(records(fixture, "plugin_tick") == 20));
	/* The program runs on, and the closed library's events were released. */
	ck_assert(eventually(event_number(fixture, "plugin_tick", "holders_total") == 0));
	trace(fixture, "plugin_tick", false);
	switch_on(fixture, "program_tick");
	await_success(child);
	trace(fixture, "program_tick", false);
}

DAEMON_TEST(program_may_exit_while_threads_emit)
{
	enum { TIMES = 20 };
	char library[256];

	snprintf(library, sizeof(library), "%s", built("tests/static_plugin.so"));
	for (int i = 0; i < TIMES; i++) {
		pid_t child = run(fixture, "exit", library);

		if (i == 0)
			switch_on(fixture, "plugin_tick");
		await_success(child);
	}
	ck_assert_uint_ge(records(fixture, "plugin_tick"), TIMES);
	trace(fixture, "plugin_tick", false);
}
