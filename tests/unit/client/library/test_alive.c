/* SPDX-License-Identifier: GPL-2.0-or-later */

/* How events come alive without being asked to, and come back: a daemon that is absent, late, hanging, restarted. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "client/library/library.h"
#include "tests/unit/fake_daemon.h"

static void register_event(struct userev *userev, struct userev_event *event, const char *description)
{
	ck_assert_int_eq(userev_register(userev, event, description, 0), 0);
}

/* By nothing but being tested. The suite's time limit is what ends it. */
static void test_until_alive(const struct userev_event *event)
{
	while (!userev_event_name(event)) {
		ck_assert(!userev_enabled(event));
		usleep(1000);
	}
}

/* Late, absent */

TEST(a_late_answer_is_taken_by_the_next_call)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };

	library_patience_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
	fake_set(fake, hold = false);
	library_patience_ms = 20000;
	register_event(userev, &other, "other u32 number");
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
	ck_assert_uint_eq(fake->accepted, 1);
	ck_assert_uint_eq(fake->items, 2);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_late_welcome_is_taken_by_a_test_of_an_event)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;

	library_patience_ms = 50;
	fake_set(fake, hold = true);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 number");
	ck_assert(!userev_enabled(&event));
	fake_set(fake, hold = false);
	test_until_alive(&event);
	ck_assert_uint_eq(fake->accepted, 1);
	ck_assert_ptr_null(userev_why(&event));
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_late_refusal_is_told_by_why)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	library_patience_ms = 50;
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	fake_set(fake, hold = true);
	ck_assert_str_eq(userev_why(&event), "it is not registered");
	register_event(userev, &event, "event");
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	ck_assert(!userev_enabled(&event));
	ck_assert_str_eq(userev_why(&event), "because");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(an_event_that_is_released_before_its_answer_is_given_back_after_it)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, kept = { 0 };

	library_patience_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &event, "event u32 number");
	register_event(userev, &kept, "kept u32 number");
	userev_release(userev, &event);
	ck_assert_uint_eq(event.place.whole, 0);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	fake_wait(fake, fake->releases == 1);
	ck_assert_uint_eq(fake->released_bit, 1);
	expect_alive(fake, &kept, "kept");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* The bit is the same: to give it back after it was granted again would take it from its new holder. */
TEST(an_event_that_is_asked_for_again_is_not_given_back)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event first = { 0 }, second = { 0 };

	register_event(userev, &first, "event u32 number");
	library_patience_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &second, "event u32 number");
	userev_release(userev, &first);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	expect_alive(fake, &second, "event");
	ck_assert_uint_eq(fake->releases, 0);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Although no two events had the same bit when it was looked the last time. */
TEST(a_late_answer_for_an_event_that_was_released_takes_nothing_from_who_has_the_same)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event kept = { 0 }, again = { 0 }, other = { 0 };

	register_event(userev, &kept, "event u32 number");
	register_event(userev, &other, "other u32 number");
	userev_release(userev, &other);
	library_patience_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &again, "event u32 number");
	userev_release(userev, &again);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	ck_assert_uint_eq(fake->releases, 1);
	ck_assert_uint_eq(fake->released_bit, 2);
	expect_alive(fake, &kept, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(events_come_alive_when_a_daemon_is_there_at_last)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };

	register_event(userev, &event, "event u32 number");
	register_event(userev, &other, "other u32 number");
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_ptr_nonnull(strstr(userev_why(&event), "there is no daemon"));
	fake_start(fake);
	test_until_alive(&event);
	test_until_alive(&other);
	expect_alive(fake, &event, "event");
	ck_assert_uint_eq(fake->registers, 1);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* A machine's milliseconds have another sign every 25 days. */
TEST(a_daemon_is_looked_for_however_long_ago_the_last_look_was)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	fake_start(fake);
	userev->look_at = about_now_ms() - 0x90000000U;
	test_until_alive(&event);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(without_a_daemon_few_look_for_it)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event");
	for (int i = 0; i < 1000; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(300);
	}
	/* 100 ms, 200 ms, 400 ms … after the first two; on a slow machine all of that may pass. */
	ck_assert_uint_lt(userev->failures, 20);
	ck_assert_int_gt(userev->not_before, 0);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(who_refuses_us_is_not_asked_in_a_loop)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;

	fake_do(fake, ERROR_PACKET, KIND_HELLO);
	userev = open_to(fake);
	register_event(userev, &event, "event u32 number");
	ck_assert_str_eq(userev_why(&event), "too many of you; close some");
	for (int i = 0; i < 1000; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(300);
	}
	ck_assert_uint_lt(fake->accepted, 20);
	fake_do(fake, GOOD, 0);
	test_until_alive(&event);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(nobody_waits_for_a_full_backlog)
{
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 0);
	struct userev_event event = { 0 };
	struct userev *first, *second;

	library_patience_ms = 50;
	/* The first connection is all that the backlog takes. */
	first = open_to(fake);
	second = open_to(fake);
	register_event(second, &event, "event");
	library_patience_ms = 1000000;
	ck_assert_int_lt(userev_poll(second, 0), 0);
	second->not_before = 0;
	ck_assert_int_eq(userev_poll(second, 0), -EAGAIN);
	ck_assert_int_lt(second->candidate, 0);
	ck_assert(!userev_enabled(&event));
	userev_close(first);
	userev_close(second);
	close(listener);
	unlink(fake->path);
	fake_free(fake);
}
END_TEST

static void *ask_a_silent_daemon(void *data)
{
	static struct userev_event event;

	userev_register(data, &event, "asked", 0);
	return &event;
}

/* Seen from outside, while the other thread is at it. */
__attribute__((noipa, no_sanitize_thread)) static bool has_many_batches(const struct userev *userev)
{
	return TAILQ_FIRST(&userev->batches) != TAILQ_LAST(&userev->batches, batches);
}

TEST(a_test_of_an_event_does_not_wait_for_another_thread)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pthread_t thread;

	library_patience_ms = 20;
	fake_set(fake, hold = true);
	register_event(userev, &event, "event u32 number");
	library_patience_ms = 1000000;
	pthread_create(&thread, NULL, ask_a_silent_daemon, userev);
	while (!has_many_batches(userev))
		usleep(1000);
	/* It has the mutex, and would for a quarter of an hour. */
	for (int i = 0; i < 100; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(100);
	}
	fake_set(fake, hold = false);
	pthread_join(thread, NULL);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

static volatile sig_atomic_t forks;

static void fork_once(int signal _unused_)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	forks++;
}

/* Where the library is nearly all the time, looking for a daemon: fork() wants its mutex. */
TEST(a_signal_handler_that_forks_does_not_wait_for_itself)
{
	const struct itimerval soon = { .it_value = { 0, 200 } };
	struct sigaction action = { .sa_handler = fork_once };
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event");
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 50; i++) {
		setitimer(ITIMER_REAL, &soon, NULL);
		while (forks == i) {
			userev->look_at = about_now_ms();
			userev->not_before = 0;
			ck_assert(!userev_enabled(&event));
		}
	}
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Restarted */

TEST(a_write_notices_that_the_daemon_has_gone_and_the_event_comes_back)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };

	register_event(userev, &event, "event u32 number");
	register_event(userev, &other, "other u32 number");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	/* It leads nowhere, so nobody need prepare a record. */
	while (userev_enabled(&event) || userev->up)
		userev_write(&event, "data", 4);
	fake_start(fake);
	while (userev->up == false)
		userev_enabled(&other);
	test_until_alive(&other);
	test_until_alive(&event);
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* A kernel goes on taking records when the connection has ended. */
TEST(what_was_on_goes_on_until_there_is_something_better)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	uint32_t index;
	char got[8];

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	fake_set(fake, keep_records = true);
	fake_set(fake, hold = true);
	shutdown(userev->fd, SHUT_RDWR);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert(!userev->up);
	ck_assert(userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), 4);
	fake_switch(fake, "event", false);
	ck_assert(!userev_enabled(&event));
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	fake_set(fake, keep_records = false);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* userev_poll(), userev_fd(), userev_watch() */

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

TEST(an_event_loop_needs_one_fd_whatever_becomes_of_the_daemon)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int fd;

	library_patience_ms = 20;
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
		/* It does not go round in circles, either. */
		ck_assert(!is_readable(fd, 20));
		ck_assert_int_eq(userev_fd(userev), fd);
		fake_start(fake);
		userev->not_before = 0;
	}
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(a_poll_that_may_wait_does_so_for_an_answer_but_for_no_daemon)
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
END_TEST

TEST(who_watches_is_told_which_events_were_turned_on_or_off)
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
	/* What was on before. */
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

	/* Another daemon: what was on is off, and it is watched, too. */
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
END_TEST

/* Its page says that it is on as long as there is no other; who writes finds out, and who watches is told. */
TEST(event_whose_daemon_has_ended_is_told_as_off)
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
END_TEST

/* Each entry into the library takes some of them and lets other threads in; the fd says that there are more. */
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
END_TEST

TEST(a_change_says_how_large_a_payload_may_be_from_now_on)
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
END_TEST

TEST(without_static_events_there_is_nothing_to_wait_for)
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
END_TEST

/* Fds that others close */

static void close_all_fds(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 3; fd < (int)MIN(limit.rlim_cur, (rlim_t)2000); fd++)
		close(fd);
}

/* The numbers that the library had are another's now. */
static int take_all_numbers(int below)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK) < 0)
		_exit(90);
	for (int fd = ends[1] + 1; fd < below; fd++)
		dup2(ends[1], fd);
	return ends[0];
}

static void wait_for_child(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static int become_a_daemon(const struct userev_event *event, bool reuse)
{
	uint32_t payload = 7;
	int nobody = -1;
	char byte;

	close_all_fds();
	if (reuse)
		nobody = take_all_numbers(400);
	/* The first test finds it out, and asks for other files; the event was on, and is so again. */
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
	wait_for_child(child);
	ck_assert_int_eq(fake_record(fake, &index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(got, 7);
	ck_assert_uint_eq(index / FAKE_STREAM, 2);
	ck_assert_uint_eq(fake->hellos, 2);
	fake_set(fake, keep_records = false);
	userev_close(userev);
	fake_free(fake);
}

TEST(a_child_that_closes_all_fds_gets_others)
{
	expect_that_a_daemonised_program_goes_on(false);
}
END_TEST

TEST(nor_does_it_write_to_what_has_their_numbers_now)
{
	expect_that_a_daemonised_program_goes_on(true);
}
END_TEST

TEST(a_child_that_closes_nothing_goes_on_and_asks_nobody)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
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
	wait_for_child(child);
	ck_assert_int_eq(fake_record(fake, &index, &got, sizeof(got)), sizeof(got));
	ck_assert_uint_eq(fake->accepted, 1);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

static int write_until_it_is_off(const struct userev_event *event)
{
	alarm(60);
	while (userev_enabled(event)) {
		userev_write(event, "data", 4);
		usleep(1000);
	}
	return 0;
}

TEST(a_child_that_finds_no_daemon_prepares_no_records)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pid_t child;

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	child = fork();
	if (child == 0)
		_exit(write_until_it_is_off(&event));
	wait_for_child(child);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Whatever the program put there since. */
static void expect_that_a_reused_fd_is_noticed(bool connection)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };
	int ends[2], number;
	char byte;

	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	number = connection ? userev->fd : stream_at(event.place)->fd;
	ck_assert_int_eq(dup2(ends[1], number), number);
	userev->unreported.too_big = 1;
	losses_report(userev);
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

TEST(a_call_notices_that_the_connections_number_is_anothers)
{
	expect_that_a_reused_fd_is_noticed(true);
}
END_TEST

TEST(a_call_notices_that_a_streams_number_is_anothers)
{
	expect_that_a_reused_fd_is_noticed(false);
}
END_TEST

TEST(closing_leaves_a_number_that_is_anothers_alone)
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
END_TEST

TEST(a_write_to_a_closed_fd_brings_another)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	close(stream_at(event.place)->fd);
	while (userev_write(&event, "data", 4) == 0)
		usleep(1000);
	ck_assert_uint_eq(fake->hellos, 2);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(fds_are_out_of_the_way)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event");
	ck_assert_int_ge(userev->fd, 100);
	ck_assert_int_ge(stream_at(event.place)->fd, 100);
	ck_assert_int_ge(userev_fd(userev), 100);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* Declared events */

enum { DECLARED = 3 };

/* What the linker makes of the declarations of a library, which is not in the program's own memory. */
struct fake_library {
	struct userev_event event[DECLARED];
	char description[DECLARED][32];
	char name[DECLARED][32];
	struct userev_declaration declared[DECLARED];
};

static void fill_in(struct fake_library *library, const char *name)
{
	for (int i = 0; i < DECLARED; i++) {
		snprintf(library->description[i], sizeof(library->description[i]), "%s%d u32 number", name, i);
		snprintf(library->name[i], sizeof(library->name[i]), "%s%d", name, i);
		library->declared[i].name = library->name[i];
		library->declared[i].description = library->description[i];
		library->event[i].declared = &library->declared[i];
	}
}

static struct fake_library *load_library(const char *name)
{
	struct fake_library *library = calloc(1, sizeof(*library));

	ck_assert_ptr_nonnull(library);
	fill_in(library, name);
	userev_load(library->event, library->event + DECLARED);
	return library;
}

static void unload(struct fake_library *library)
{
	userev_unload(library->event, library->event + DECLARED);
	for (int i = 0; i < DECLARED; i++) {
		ck_assert_uint_eq(library->event[i].place.whole, 0);
		ck_assert_int_eq(library->event[i].status, 0);
	}
	free(library);
}

static void load_program(void)
{
	static struct fake_library program;

	fill_in(&program, "program");
	userev_load(program.event, program.event + DECLARED);
	/* Each of its events says so. */
	userev_load(program.event, program.event + DECLARED);
}

/* The connection of the declared events stays for good. */
static void forget_static_events(void)
{
	userev_close(library_meant(NULL));
}

TEST(what_is_there_at_the_start_is_asked_for_in_one_go_and_nobody_waits)
{
	struct fake *fake = start();
	struct fake_library *first, *second;

	setenv("USEREV_SOCKET", fake->path, 1);
	library_patience_ms = 1000000;
	fake_set(fake, hold = true);
	first = load_library("first");
	second = load_library("second");
	load_program();
	ck_assert_int_eq(userev_poll(NULL, 0), -EAGAIN);
	fake_set(fake, hold = false);
	/* The daemon knows of them without another call. */
	fake_wait(fake, fake->registers == 1);
	ck_assert_uint_eq(fake->items, 3 * DECLARED);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_alive(fake, &first->event[0], "first0");
	expect_alive(fake, &second->event[2], "second2");
	ck_assert_uint_eq(fake->registers, 1);
	ck_assert_uint_eq(fake->hellos, 1);
	unload(first);
	expect_alive(fake, &second->event[2], "second2");
	fake_wait(fake, fake->releases == 1);
	unload(second);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(libraries_of_a_program_without_events_are_asked_for_when_one_is_tested)
{
	struct fake *fake = start();
	struct fake_library *first, *second;

	setenv("USEREV_SOCKET", fake->path, 1);
	first = load_library("first");
	second = load_library("second");
	test_until_alive(&second->event[1]);
	test_until_alive(&first->event[0]);
	ck_assert_uint_eq(fake->registers, 1);
	unload(first);
	unload(second);
	fake_wait(fake, fake->ended == 1);
	/* One that is loaded later. */
	first = load_library("later");
	test_until_alive(&first->event[0]);
	expect_alive(fake, &first->event[0], "later0");
	unload(first);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(the_last_library_that_goes_leaves_alone_what_is_anothers_now)
{
	struct fake *fake = start();
	struct fake_library *library;
	int ends[2], number;

	setenv("USEREV_SOCKET", fake->path, 1);
	library = load_library("library");
	test_until_alive(&library->event[0]);
	number = library_meant(NULL)->fd;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(dup2(ends[1], number), number);
	unload(library);
	ck_assert_int_eq(send(number, "data", 4, MSG_NOSIGNAL), 4);
	close(number);
	close(ends[0]);
	close(ends[1]);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(a_library_may_go_before_it_is_answered)
{
	struct fake *fake = start();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, hold = true);
	load_program();
	library = load_library("library");
	userev_poll(NULL, 0);
	unload(library);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_wait(fake, fake->registers > 0);
	ck_assert_uint_eq(fake->releases, fake->items > DECLARED);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(who_refused_a_declared_event_and_why_is_known)
{
	struct fake *fake = start();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, refuse = "library1");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	library = load_library("library");
	ck_assert_ptr_nonnull(userev_why(&library->event[1]));
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	ck_assert_str_eq(userev_why(&library->event[1]), "because");
	ck_assert_ptr_null(userev_why(&library->event[0]));
	unload(library);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(what_a_library_leaves_unasked_and_unanswered_is_not_asked_for_and_given_back)
{
	struct fake *fake = start();
	struct fake_library *first, *library, *other;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, welcome.batch_max = 1);
	first = load_library("first");
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_set(fake, hold = true);
	library = load_library("library");
	other = load_library("other");
	unload(library);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_wait(fake, fake->releases == 1);
	/* Two packets were on their way. */
	ck_assert_uint_eq(fake->items, 2 * DECLARED + 2);
	expect_alive(fake, &other->event[0], "other0");
	expect_alive(fake, &other->event[2], "other2");
	unload(first);
	unload(other);
	forget_static_events();
	fake_free(fake);
}
END_TEST

struct emitter {
	struct userev_event *event;
	atomic_bool stop;
	atomic_uint rounds;
};

static void *emit_until_the_end(void *data)
{
	struct emitter *emitter = data;

	while (!emitter->stop) {
		for (int i = 0; i < DECLARED; i++)
			if (userev_enabled(&emitter->event[i]))
				userev_write(&emitter->event[i], "data", 4);
		emitter->rounds++;
	}
	return NULL;
}

static void wait_for_rounds(struct emitter *emitter, unsigned more)
{
	const unsigned until = emitter->rounds + more;

	while (emitter->rounds < until)
		usleep(100);
}

/* At the end of a program its libraries take their events back, whatever other threads are doing with them. */
TEST(threads_may_go_on_with_the_events_that_a_library_takes_back_at_the_end_of_a_program)
{
	struct fake *fake = start();
	pthread_t thread[4];

	setenv("USEREV_SOCKET", fake->path, 1);
	for (int round = 0; round < 20; round++) {
		struct fake_library *library = load_library("library");
		struct emitter emitter = { .event = library->event };

		ck_assert_int_eq(userev_poll(NULL, -1), 0);
		for (int i = 0; i < DECLARED; i++)
			fake_switch(fake, library->name[i], true);
		for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
			pthread_create(&thread[i], NULL, emit_until_the_end, &emitter);
		wait_for_rounds(&emitter, 100);
		userev_unload(library->event, library->event + DECLARED);
		wait_for_rounds(&emitter, 100);
		emitter.stop = true;
		for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
			pthread_join(thread[i], NULL);
		free(library);
	}
	forget_static_events();
	fake_free(fake);
}
END_TEST

/* What an event costs */

enum { THOUSAND = 1000, BYTES_EACH = 32 };

/* As a library declares them. What is said of them nobody writes. */
static struct userev_event *declare_a_thousand(void)
{
	static struct userev_declaration declared[THOUSAND];
	static char name[THOUSAND][16], description[THOUSAND][32];
	struct userev_event *event = calloc(THOUSAND, sizeof(*event));

	ck_assert_ptr_nonnull(event);
	for (int i = 0; i < THOUSAND; i++) {
		snprintf(name[i], sizeof(name[i]), "many%d", i);
		snprintf(description[i], sizeof(description[i]), "many%d u32 number", i);
		declared[i] = (struct userev_declaration){ name[i], description[i], 0 };
		event[i].declared = &declared[i];
	}
	return event;
}

/* All that the library has of the machine, however little of it is in use; a sanitizer has its own. */
static void expect_small_books(void)
{
#ifndef __SANITIZE_ADDRESS__
	ck_assert_uint_gt(memory_mapped, 0);
	ck_assert_uint_le(THOUSAND * sizeof(struct userev_event) + memory_mapped, THOUSAND * BYTES_EACH);
#endif
}

TEST(a_declared_event_costs_32_bytes_with_all_that_is_known_of_it_however_often_the_daemon_changes)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();

	setenv("USEREV_SOCKET", fake->path, 1);
	userev_load(event, event + THOUSAND);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(userev_poll(NULL, -1), 0);
		expect_alive(fake, &event[0], "many0");
		expect_alive(fake, &event[THOUSAND - 1], "many999");
		expect_small_books();
		fake_stop(fake);
		fake_start(fake);
	}
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_small_books();
	/* All of them are given back, in as many packets as it takes. */
	userev_unload(event, event + THOUSAND);
	ck_assert_uint_eq(event[THOUSAND - 1].place.whole, 0);
	fake_wait(fake, fake->ended == 1);
	free(event);
	forget_static_events();
	fake_free(fake);
}
END_TEST

TEST(a_thousand_are_given_back_in_as_many_packets_as_it_takes)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();

	setenv("USEREV_SOCKET", fake->path, 1);
	load_program();
	userev_load(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	userev_unload(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	ck_assert_uint_eq(fake->releases, 2);
	/* The first of the second packet: DECLARED events have the bits before. */
	ck_assert_uint_eq(fake->released_bit, DECLARED + WIRE_BATCH_MAX + 1);
	free(event);
	forget_static_events();
	fake_free(fake);
}
END_TEST

/* The daemon does not send a stream again that it has still to hear of. */
TEST(a_stream_is_there_until_all_that_it_had_is_given_back)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, refuse = "program");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	fake_set(fake, welcome.packet_max = 800);
	load_program();
	userev_load(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	userev_unload(event, event + THOUSAND);
	library = load_library("library");
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_alive(fake, &library->event[0], "library0");
	ck_assert_uint_eq(fake->accepted, 1);
	unload(library);
	free(event);
	forget_static_events();
	fake_free(fake);
}
END_TEST

static void change_daemons(struct fake *fake, struct userev *userev)
{
	fake_stop(fake);
	fake_start(fake);
	userev->not_before = 0;
	ck_assert_int_eq(userev_poll(userev, -1), 0);
}

/* A writer may have read their numbers, so they stay for a while. */
TEST(the_files_of_former_daemons_are_few)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	int fds = count_open_fds();

	register_event(userev, &event, "event u32 number");
	for (int i = 0; i < 100; i++)
		change_daemons(fake, userev);
	ck_assert_int_le(count_open_fds(), fds + 70);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_int_lt(count_open_fds(), fds);
	fake_free(fake);
}
END_TEST

/* Then no number above it can be taken again. */
TEST(a_program_that_lowers_its_limit_of_fds_gets_its_events_from_the_next_daemon)
{
	const struct rlimit few = { .rlim_cur = 90, .rlim_max = 90 };
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	ck_assert_int_ge(userev->fd, (int)few.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	change_daemons(fake, userev);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

struct loser {
	struct userev_event event;
	_Atomic bool ends;
};

static void *lose_records(void *data)
{
	struct loser *loser = data;

	while (!loser->ends) {
		userev_write(&loser->event, (char[5000]){ 0 }, 5000);
		usleep(100);
	}
	return NULL;
}

/* ThreadSanitizer says whether the report looks at what a welcome writes. */
TEST(a_thread_tells_its_losses_while_daemons_come_and_go)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct loser loser = { 0 };
	pthread_t thread;

	register_event(userev, &loser.event, "event char[8] text");
	pthread_create(&thread, NULL, lose_records, &loser);
	for (int i = 0; i < 10; i++) {
		change_daemons(fake, userev);
		fake_set(fake, lost.too_big = 0);
		fake_switch(fake, "event", true);
		fake_wait(fake, fake->lost.too_big > 0);
	}
	loser.ends = true;
	pthread_join(thread, NULL);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

TEST(the_file_of_a_former_daemon_takes_nothing_and_its_number_is_used_again_when_it_has_rested)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	const struct stream *former;
	int fd;

	register_event(userev, &event, "event u32 number");
	former = stream_at(event.place);
	fd = former->fd;
	change_daemons(fake, userev);
	ck_assert_ptr_ne(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	ck_assert_int_lt(write(fd, "data", 4), 0);
	ck_assert_int_eq(errno, ENOTCONN);
	change_daemons(fake, userev);
	ck_assert_ptr_ne(stream_at(event.place), former);
	TAILQ_FIRST(&userev->resting)->rests_since -= 60000;
	change_daemons(fake, userev);
	ck_assert_ptr_eq(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}
END_TEST

/* userev_seal(), USEREV_DEBUG */

static int live_under_a_seal(struct userev *userev, struct userev_event *event)
{
	userev_seal(userev);
	if (event->place.part.bit & USEREV_PENDING_ || !userev_enabled(event) || userev_write(event, "data", 4) != 4)
		return 1;
	/* A write that fails is no reason either. */
	close(stream_at(event->place)->fd);
	userev_write(event, "data", 4);
	return userev->candidate >= 0 || userev->fd >= 0 ? 2 : 0;
}

TEST(after_a_seal_nobody_looks_for_a_daemon_and_what_was_granted_goes_on)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake), *lonely = userev_open("/tmp/userev-alive-where-nobody-is", 0);
	struct userev_event event = { 0 }, waiting = { 0 };
	unsigned failures;
	pid_t child;

	register_event(userev, &event, "event u32 number");
	register_event(lonely, &waiting, "waiting");
	failures = lonely->failures;
	userev_seal(lonely);
	lonely->not_before = 0;
	for (int i = 0; i < 100; i++)
		ck_assert(!userev_enabled(&waiting));
	ck_assert_int_eq(waiting.status, 0);
	ck_assert_uint_eq(lonely->failures, failures);
	/* Also in a child that has not yet looked whether its fds are still there. */
	fake_switch(fake, "event", true);
	child = fork();
	if (child == 0)
		_exit(live_under_a_seal(userev, &event));
	wait_for_child(child);
	userev_close(lonely);
	userev_close(userev);
	fake_free(fake);
}
END_TEST

static size_t read_stderr_of(struct fake *fake, char *ret, size_t size)
{
	struct userev_event event = { 0 };
	int saved = dup(STDERR_FILENO), ends[2];
	struct userev *userev;
	ssize_t got;

	ck_assert_int_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	userev = userev_open(fake->path, 0);
	userev_register(userev, &event, "event", 0);
	userev_close(userev);
	dup2(saved, STDERR_FILENO);
	got = read(ends[0], ret, size - 1);
	ret[MAX(got, 0)] = '\0';
	close(saved);
	close(ends[0]);
	close(ends[1]);
	return (size_t)MAX(got, 0);
}

TEST(it_explains_itself_to_who_asks_for_it)
{
	struct fake *fake = start();
	char said[4096];

	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	ck_assert_uint_eq(read_stderr_of(fake, said, sizeof(said)), 0);
	setenv("USEREV_DEBUG", "0", 1);
	ck_assert_uint_eq(read_stderr_of(fake, said, sizeof(said)), 0);
	setenv("USEREV_DEBUG", "1", 1);
	read_stderr_of(fake, said, sizeof(said));
	ck_assert_ptr_nonnull(strstr(said, "userev: connected: tenant /fake, at most 1024 events\n"));
	ck_assert_ptr_nonnull(strstr(said, "userev: refused: event: because\n"));
	fake_stop(fake);
	read_stderr_of(fake, said, sizeof(said));
	ck_assert_ptr_nonnull(strstr(said, "userev: no connection to /"));
	ck_assert_ptr_nonnull(strstr(said, ": No such file or directory"));
	fake_free(fake);
}
END_TEST

SUITE("alive", a_late_answer_is_taken_by_the_next_call, a_late_welcome_is_taken_by_a_test_of_an_event,
      a_late_refusal_is_told_by_why, an_event_that_is_released_before_its_answer_is_given_back_after_it,
      an_event_that_is_asked_for_again_is_not_given_back,
      a_late_answer_for_an_event_that_was_released_takes_nothing_from_who_has_the_same,
      events_come_alive_when_a_daemon_is_there_at_last, a_daemon_is_looked_for_however_long_ago_the_last_look_was,
      without_a_daemon_few_look_for_it, who_refuses_us_is_not_asked_in_a_loop, nobody_waits_for_a_full_backlog,
      a_test_of_an_event_does_not_wait_for_another_thread, a_signal_handler_that_forks_does_not_wait_for_itself,
      a_write_notices_that_the_daemon_has_gone_and_the_event_comes_back,
      what_was_on_goes_on_until_there_is_something_better, an_event_loop_needs_one_fd_whatever_becomes_of_the_daemon,
      a_poll_that_may_wait_does_so_for_an_answer_but_for_no_daemon,
      who_watches_is_told_which_events_were_turned_on_or_off, event_whose_daemon_has_ended_is_told_as_off,
      flood_of_changes_is_taken_in_pieces, a_change_says_how_large_a_payload_may_be_from_now_on,
      without_static_events_there_is_nothing_to_wait_for, a_child_that_closes_all_fds_gets_others,
      nor_does_it_write_to_what_has_their_numbers_now, a_child_that_closes_nothing_goes_on_and_asks_nobody,
      a_child_that_finds_no_daemon_prepares_no_records, a_call_notices_that_the_connections_number_is_anothers,
      a_call_notices_that_a_streams_number_is_anothers, closing_leaves_a_number_that_is_anothers_alone,
      a_write_to_a_closed_fd_brings_another, fds_are_out_of_the_way,
      what_is_there_at_the_start_is_asked_for_in_one_go_and_nobody_waits,
      libraries_of_a_program_without_events_are_asked_for_when_one_is_tested,
      the_last_library_that_goes_leaves_alone_what_is_anothers_now, a_library_may_go_before_it_is_answered,
      who_refused_a_declared_event_and_why_is_known,
      threads_may_go_on_with_the_events_that_a_library_takes_back_at_the_end_of_a_program,
      what_a_library_leaves_unasked_and_unanswered_is_not_asked_for_and_given_back,
      a_declared_event_costs_32_bytes_with_all_that_is_known_of_it_however_often_the_daemon_changes,
      a_thousand_are_given_back_in_as_many_packets_as_it_takes, a_stream_is_there_until_all_that_it_had_is_given_back,
      the_files_of_former_daemons_are_few, a_program_that_lowers_its_limit_of_fds_gets_its_events_from_the_next_daemon,
      a_thread_tells_its_losses_while_daemons_come_and_go,
      the_file_of_a_former_daemon_takes_nothing_and_its_number_is_used_again_when_it_has_rested,
      after_a_seal_nobody_looks_for_a_daemon_and_what_was_granted_goes_on, it_explains_itself_to_who_asks_for_it)
