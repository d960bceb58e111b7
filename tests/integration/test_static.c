/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Declared events in programs that fork, exec, close fds, and so on (static_program.c). */

#include <stdio.h>
#include <sys/wait.h>

#include "protocol/event/record.h"
#include "tests/integration/fixture.h"

static struct fixture fixture;

static pid_t run(const char *what, const char *argument)
{
	char program[256];
	pid_t child;

	snprintf(program, sizeof(program), "%s", built("tests/static_program"));
	setenv("USEREV_SOCKET", fixture.socket, 1);
	/* LeakSanitizer does not work after chroot() or under seccomp. */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	child = fork();
	if (child == 0) {
		execl(program, program, what, argument, NULL);
		_exit(99);
	}
	ck_assert_int_gt(child, 0);
	return child;
}

static void expect_good_end(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ended with %x", status);
}

static uint64_t records(const char *event)
{
	struct seen seen;

	see(&fixture, event, &seen);
	return seen.records;
}

/* A process that calls exec releases the event and registers it again. */
static void switch_on(const char *event)
{
	ck_assert(eventually(event_number(&fixture, event, "holders_total") > 0));
	ck_assert(eventually(trace(&fixture, event, true) == 1));
}

static void switch_off(const char *event)
{
	trace(&fixture, event, false);
}

/* The event is on in each process of the program, and each emits once. */
static void expect_that_it_goes_on(const char *what, uint64_t expected)
{
	pid_t child;

	fixture_start(&fixture, NULL);
	child = run(what, NULL);
	switch_on("program_tick");
	expect_good_end(child);
	ck_assert(eventually(records("program_tick") == expected));
	switch_off("program_tick");
	fixture_stop(&fixture);
}

TEST(declared_event_is_emitted)
{
	expect_that_it_goes_on("plain", 1);
}
END_TEST

TEST(parent_and_child_emit_after_fork)
{
	expect_that_it_goes_on("fork", 2);
}
END_TEST

TEST(parent_and_child_emit_after_vfork)
{
	expect_that_it_goes_on("vfork", 2);
}
END_TEST

TEST(program_emits_after_exec)
{
	expect_that_it_goes_on("exec", 1);
}
END_TEST

TEST(daemonized_program_with_closed_fds_emits)
{
	expect_that_it_goes_on("daemon", 1);
}
END_TEST

TEST(program_emits_after_closing_all_fds)
{
	expect_that_it_goes_on("close", 1);
}
END_TEST

TEST(program_emits_after_setuid)
{
	expect_that_it_goes_on("setuid", 1);
}
END_TEST

TEST(program_emits_after_chroot)
{
	expect_that_it_goes_on("chroot", 1);
}
END_TEST

TEST(sealed_program_under_seccomp_emits)
{
	expect_that_it_goes_on("seccomp", 1);
}
END_TEST

TEST(short_lived_threads_emit)
{
	expect_that_it_goes_on("threads", 200);
}
END_TEST

TEST(watching_program_is_notified_of_enabled_event)
{
	expect_that_it_goes_on("watch", 1);
}
END_TEST

/* The library connects and is granted its events in a handler that mostly interrupts malloc(). */
TEST(event_is_granted_in_a_signal_handler)
{
	char later[sizeof(fixture.socket)];
	pid_t child;

	fixture_start(&fixture, NULL);
	snprintf(later, sizeof(later), "%.90s-", fixture.socket);
	ck_assert_int_eq(rename(fixture.socket, later), 0);
	child = run("handler", NULL);
	usleep(100000);
	ck_assert_int_eq(rename(later, fixture.socket), 0);
	switch_on("program_tick");
	expect_good_end(child);
	ck_assert_uint_eq(records("program_tick"), 1);
	switch_off("program_tick");
	fixture_stop(&fixture);
}
END_TEST

static void expect_record(const char *event, const char *expected)
{
	static struct description description;
	char sentence[256], record[1024] = "";
	struct text why = text_make(sentence, sizeof(sentence)), text = text_make(record, sizeof(record));
	struct seen seen;

	ck_assert(eventually((see(&fixture, event, &seen), seen.records == 1)));
	ck_assert_int_eq(description_parse(seen.description, strlen(seen.description), &description, &why), 0);
	ck_assert_int_eq(record_check(&description, seen.payload, seen.length), 0);
	record_to_text(&description, seen.payload, seen.length, &text);
	ck_assert_str_eq(record, expected);
}

TEST(field_of_each_kind_arrives_unchanged)
{
	pid_t child;

	fixture_start(&fixture, NULL);
	child = run("kinds", NULL);
	switch_on("program_kinds");
	switch_on("program_nothing");
	expect_good_end(child);
	expect_record("program_kinds", "a=255 b=-1 comm=\"abc\" c=65535 d=-2 where=01000000ffffffff e=7 f=-7 "
				       "part_f32=0.5 load_f64=-2 text=\"some text\" data=[1,2] "
				       "g=18446744073709551615 h=-9223372036854775808 full=\"wxyz\" none=\"(null)\"");
	expect_record("program_nothing", "");
	switch_off("program_kinds");
	switch_off("program_nothing");
	fixture_stop(&fixture);
}
END_TEST

TEST(short_program_may_wait_for_its_events)
{
	fixture_start(&fixture, NULL);
	setenv("USEREV_WAIT", "60000", 1);
	expect_good_end(run("ready", NULL));
	unsetenv("USEREV_WAIT");
	fixture_stop(&fixture);
}
END_TEST

TEST(event_of_program_and_library_is_one_event)
{
	pid_t child;

	fixture_start(&fixture, NULL);
	child = run("library", NULL);
	switch_on("static_shared");
	switch_on("library_tick");
	switch_on("program_tick");
	expect_good_end(child);
	ck_assert(eventually(records("library_tick") == 1 && records("static_shared") == 2));
	switch_off("library_tick");
	switch_off("program_tick");
	switch_off("static_shared");
	fixture_stop(&fixture);
}
END_TEST

TEST(library_may_be_loaded_and_closed_repeatedly)
{
	char library[256];
	pid_t child;

	fixture_start(&fixture, NULL);
	snprintf(library, sizeof(library), "%s", built("tests/static_plugin.so"));
	child = run("load", library);
	switch_on("plugin_tick");
	ck_assert(eventually(records("plugin_tick") == 20));
	/* The program runs on, and the closed library's events were released. */
	ck_assert(eventually(event_number(&fixture, "plugin_tick", "holders_total") == 0));
	switch_off("plugin_tick");
	switch_on("program_tick");
	expect_good_end(child);
	switch_off("program_tick");
	fixture_stop(&fixture);
}
END_TEST

TEST(program_may_exit_while_threads_emit)
{
	enum { TIMES = 20 };
	char library[256];

	fixture_start(&fixture, NULL);
	snprintf(library, sizeof(library), "%s", built("tests/static_plugin.so"));
	for (int i = 0; i < TIMES; i++) {
		pid_t child = run("exit", library);

		if (i == 0)
			switch_on("plugin_tick");
		expect_good_end(child);
	}
	ck_assert_uint_ge(records("plugin_tick"), TIMES);
	switch_off("plugin_tick");
	fixture_stop(&fixture);
}
END_TEST

SUITE("static", declared_event_is_emitted, parent_and_child_emit_after_fork, parent_and_child_emit_after_vfork,
      program_emits_after_exec, daemonized_program_with_closed_fds_emits, program_emits_after_closing_all_fds,
      program_emits_after_setuid, program_emits_after_chroot, sealed_program_under_seccomp_emits,
      short_lived_threads_emit, watching_program_is_notified_of_enabled_event, event_is_granted_in_a_signal_handler,
      field_of_each_kind_arrives_unchanged, short_program_may_wait_for_its_events,
      event_of_program_and_library_is_one_event, library_may_be_loaded_and_closed_repeatedly,
      program_may_exit_while_threads_emit)
