/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that are declared, in programs that do to themselves what programs do (static_program.c). */

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
	/* Who has changed his root, or forbidden himself system calls, cannot look for leaks. */
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

/* Who becomes another process lets go of it, and holds it anew. */
static void switch_on(const char *event)
{
	ck_assert(eventually(event_number(&fixture, event, "holders_total") > 0));
	ck_assert(eventually(trace(&fixture, event, true) == 1));
}

static void switch_off(const char *event)
{
	trace(&fixture, event, false);
}

/* It is found to be on, whatever the program has done, and each of its processes emits once. */
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

TEST(a_declared_event_needs_nothing_but_to_be_emitted)
{
	expect_that_it_goes_on("plain", 1);
}
END_TEST

TEST(both_sides_of_a_fork_emit)
{
	expect_that_it_goes_on("fork", 2);
}
END_TEST

TEST(a_program_that_was_started_by_vfork_emits_and_so_does_who_did_it)
{
	expect_that_it_goes_on("vfork", 2);
}
END_TEST

TEST(a_program_that_becomes_another_emits)
{
	expect_that_it_goes_on("exec", 1);
}
END_TEST

TEST(a_program_that_becomes_a_daemon_and_closes_all_fds_emits)
{
	expect_that_it_goes_on("daemon", 1);
}
END_TEST

TEST(a_program_that_closes_all_fds_and_calls_the_library_emits)
{
	expect_that_it_goes_on("close", 1);
}
END_TEST

TEST(a_program_that_changes_its_user_emits)
{
	expect_that_it_goes_on("setuid", 1);
}
END_TEST

TEST(a_program_that_changes_its_root_emits)
{
	expect_that_it_goes_on("chroot", 1);
}
END_TEST

TEST(a_program_that_forbids_itself_all_but_writev_emits)
{
	expect_that_it_goes_on("seccomp", 1);
}
END_TEST

TEST(threads_that_come_and_go_emit)
{
	expect_that_it_goes_on("threads", 200);
}
END_TEST

TEST(who_watches_learns_that_it_was_turned_on)
{
	expect_that_it_goes_on("watch", 1);
}
END_TEST

/* In a handler, which interrupts malloc() mostly, the library finds the daemon, is welcomed and granted its events. */
TEST(an_event_comes_alive_in_a_signal_handler)
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

TEST(a_field_of_each_kind_arrives_as_it_was_given)
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

TEST(a_short_program_may_wait_for_its_events)
{
	fixture_start(&fixture, NULL);
	setenv("USEREV_WAIT", "60000", 1);
	expect_good_end(run("ready", NULL));
	unsetenv("USEREV_WAIT");
	fixture_stop(&fixture);
}
END_TEST

TEST(the_same_event_in_a_program_and_its_library_is_one)
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

TEST(a_library_may_be_loaded_and_closed_as_often_as_one_likes)
{
	char library[256];
	pid_t child;

	fixture_start(&fixture, NULL);
	snprintf(library, sizeof(library), "%s", built("tests/static_plugin.so"));
	child = run("load", library);
	switch_on("plugin_tick");
	ck_assert(eventually(records("plugin_tick") == 20));
	/* The program goes on, and what it no longer has was given back. */
	ck_assert(eventually(event_number(&fixture, "plugin_tick", "holders_total") == 0));
	switch_off("plugin_tick");
	switch_on("program_tick");
	expect_good_end(child);
	switch_off("program_tick");
	fixture_stop(&fixture);
}
END_TEST

TEST(a_program_may_exit_while_its_threads_emit_events_of_a_library_that_it_has_loaded)
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

SUITE("static", a_declared_event_needs_nothing_but_to_be_emitted, both_sides_of_a_fork_emit,
      a_program_that_was_started_by_vfork_emits_and_so_does_who_did_it, a_program_that_becomes_another_emits,
      a_program_that_becomes_a_daemon_and_closes_all_fds_emits,
      a_program_that_closes_all_fds_and_calls_the_library_emits, a_program_that_changes_its_user_emits,
      a_program_that_changes_its_root_emits, a_program_that_forbids_itself_all_but_writev_emits,
      threads_that_come_and_go_emit, who_watches_learns_that_it_was_turned_on, an_event_comes_alive_in_a_signal_handler,
      a_field_of_each_kind_arrives_as_it_was_given, a_short_program_may_wait_for_its_events,
      the_same_event_in_a_program_and_its_library_is_one, a_library_may_be_loaded_and_closed_as_often_as_one_likes,
      a_program_may_exit_while_its_threads_emit_events_of_a_library_that_it_has_loaded)
