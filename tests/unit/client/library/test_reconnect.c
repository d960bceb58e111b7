/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events become usable by being tested: daemons that are absent, late or restarted; userev_seal(); USEREV_DEBUG. */

#include "tests/unit/client/library/library_test.h"

WITH_DAEMON(late_answer_is_taken_by_next_call)
{
	static struct userev_event event, other;

	session_answer_timeout_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &event, "event u32 number");
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
	fake_set(fake, hold = false);
	session_answer_timeout_ms = 20000;
	register_event(userev, &other, "other u32 number");
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
	ck_assert_uint_eq(fake->accepted, 1);
	ck_assert_uint_eq(fake->items, 2);
}

TEST(late_welcome_is_taken_by_event_test)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;

	session_answer_timeout_ms = 50;
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

WITH_DAEMON(late_refusal_is_reported_by_why)
{
	static struct userev_event event;

	session_answer_timeout_ms = 50;
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	fake_set(fake, hold = true);
	ck_assert_str_eq(userev_why(&event), "the event is not registered");
	register_event(userev, &event, "event");
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	ck_assert(!userev_enabled(&event));
	ck_assert_str_eq(userev_why(&event), "because");
}

WITH_DAEMON(released_before_answer_is_released_after_it)
{
	static struct userev_event event, kept;

	session_answer_timeout_ms = 50;
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
}

/* The new event has the same bit: releasing the bit later would switch the new event off. */
WITH_DAEMON(event_registered_again_is_not_released)
{
	static struct userev_event first, second;

	register_event(userev, &first, "event u32 number");
	session_answer_timeout_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &second, "event u32 number");
	userev_release(userev, &first);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	expect_alive(fake, &second, "event");
	ck_assert_uint_eq(fake->releases, 0);
}

/* Although all bits differed at the last scan. */
WITH_DAEMON(late_answer_keeps_bit_of_same_event)
{
	static struct userev_event kept, again, other;

	register_event(userev, &kept, "event u32 number");
	register_event(userev, &other, "other u32 number");
	userev_release(userev, &other);
	session_answer_timeout_ms = 50;
	fake_set(fake, hold = true);
	register_event(userev, &again, "event u32 number");
	userev_release(userev, &again);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	ck_assert_uint_eq(fake->releases, 1);
	ck_assert_uint_eq(fake->released_bit, 2);
	expect_alive(fake, &kept, "event");
}

TEST(events_become_usable_when_daemon_starts)
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

/* The 32-bit milliseconds change their sign every 25 days. */
TEST(look_after_clock_wraparound_is_not_early)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	fake_start(fake);
	userev->look_at = clock_coarse_ms() - 0x90000000U;
	test_until_alive(&event);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

TEST(tests_without_daemon_rarely_connect)
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

TEST(refusing_daemon_is_not_asked_in_a_loop)
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

TEST(full_backlog_blocks_nothing)
{
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 0);
	struct userev_event event = { 0 };
	struct userev *first, *second;

	session_answer_timeout_ms = 50;
	/* The first connection fills the backlog. */
	first = open_to(fake);
	second = open_to(fake);
	register_event(second, &event, "event");
	session_answer_timeout_ms = 1000000;
	ck_assert_int_lt(userev_poll(second, 0), 0);
	second->not_before = 0;
	ck_assert_int_eq(userev_poll(second, 0), -EAGAIN);
	ck_assert_int_lt(second->connection.fd, 0);
	ck_assert(!userev_enabled(&event));
	userev_close(first);
	userev_close(second);
	close(listener);
	unlink(fake->path);
	fake_free(fake);
}

static void *ask_a_silent_daemon(void *data)
{
	static struct userev_event event;

	userev_register(data, &event, "asked", 0);
	return &event;
}

/* Read without the lock, which the other thread has. */
__attribute__((noipa, no_sanitize_thread)) static bool has_many_batches(const struct userev *userev)
{
	return TAILQ_FIRST(&userev->events.batches) != TAILQ_LAST(&userev->events.batches, batches);
}

WITH_DAEMON(event_test_does_not_wait_for_thread)
{
	static struct userev_event event;
	pthread_t thread;

	session_answer_timeout_ms = 20;
	fake_set(fake, hold = true);
	register_event(userev, &event, "event u32 number");
	session_answer_timeout_ms = 1000000;
	pthread_create(&thread, NULL, ask_a_silent_daemon, userev);
	while (!has_many_batches(userev))
		usleep(1000);
	/* The thread holds the lock, and would for a quarter of an hour. */
	for (int i = 0; i < 100; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(100);
	}
	fake_set(fake, hold = false);
	pthread_join(thread, NULL);
	expect_alive(fake, &event, "event");
}

static volatile sig_atomic_t forks;

static void fork_once(int signal _unused_)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	forks++;
}

/* The signal usually interrupts the library while it connects; fork() takes its lock. */
TEST(forking_signal_handler_does_not_deadlock)
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
			userev->look_at = clock_coarse_ms();
			userev->not_before = 0;
			ck_assert(!userev_enabled(&event));
		}
	}
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(write_notices_daemon_end_and_reconnects)
{
	static struct userev_event event, other;

	register_event(userev, &event, "event u32 number");
	register_event(userev, &other, "other u32 number");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	/* The stream has ended, so the event is off. */
	while (userev_enabled(&event) || userev->connection.state == CONNECTION_UP)
		userev_write(&event, "data", 4);
	fake_start(fake);
	while (userev->connection.state != CONNECTION_UP)
		userev_enabled(&other);
	test_until_alive(&other);
	test_until_alive(&event);
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
}

/* With the kernel backends records are still taken after the connection has ended. */
WITH_DAEMON(event_stays_on_until_new_grant)
{
	static struct userev_event event;
	uint32_t index;
	char got[8];

	register_event(userev, &event, "event u32 number");
	fake_switch(fake, "event", true);
	fake_set(fake, keep_records = true);
	fake_set(fake, hold = true);
	shutdown(userev->connection.fd, SHUT_RDWR);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert(userev->connection.state != CONNECTION_UP);
	ck_assert(userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), 4);
	fake_switch(fake, "event", false);
	ck_assert(!userev_enabled(&event));
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
	fake_set(fake, keep_records = false);
	expect_alive(fake, &event, "event");
}

static int live_under_a_seal(struct userev *userev, struct userev_event *event)
{
	userev_seal(userev);
	if (event->place.part.bit & USEREV_PENDING_ || !userev_enabled(event) || userev_write(event, "data", 4) != 4)
		return 1;
	/* A failed write does not connect, either. */
	close(stream_at(event->place)->fd);
	userev_write(event, "data", 4);
	return userev->connection.fd >= 0 ? 2 : 0;
}

TEST(seal_keeps_grants_and_stops_connecting)
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
	/* Also in a child that has not verified its fds yet. */
	fake_switch(fake, "event", true);
	child = fork();
	if (child == 0)
		_exit(live_under_a_seal(userev, &event));
	expect_child_succeeds(child);
	userev_close(lonely);
	userev_close(userev);
	fake_free(fake);
}

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

TEST(debug_prints_connections_and_refusals)
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
