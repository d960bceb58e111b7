/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events become usable by being tested: daemons that are absent, late or restarted; userev_seal(); USEREV_DEBUG. */

#include "tests/unit/client/library/library_test.h"

/* The daemon answers nothing, and calls time out. */
static void hold(void)
{
	session_answer_timeout_ms = 50;
	fake_set(hold = true);
}

static void answer_all(void)
{
	fake_set(hold = false);
	ck_assert_int_eq(userev_poll(userev, 60000), 0);
}

static void test_for_a_while(void)
{
	for (int i = 0; i < 1000; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(300);
	}
}

WITH_DAEMON(late_answer_is_taken_by_next_call)
{
	hold();
	register_event(&event, "event u32 number");
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
	fake_set(hold = false);
	session_answer_timeout_ms = 20000;
	register_event(&other, "other u32 number");
	expect_alive(&event, "event");
	expect_alive(&other, "other");
	ck_assert_uint_eq(fake_daemon->accepted, 1);
	ck_assert_uint_eq(fake_daemon->items, 2);
}

WITH_DAEMON_ONLY(late_welcome_is_taken_by_event_test)
{
	hold();
	userev = open_library();
	register_event(&event, "event u32 number");
	ck_assert(!userev_enabled(&event));
	fake_set(hold = false);
	test_until_alive(&event);
	ck_assert_uint_eq(fake_daemon->accepted, 1);
	ck_assert_ptr_null(userev_why(&event));
	expect_alive(&event, "event");
}

WITH_DAEMON(late_refusal_is_reported_by_why)
{
	session_answer_timeout_ms = 50;
	fake_refuse("event", REFUSAL_NOT_PERMITTED);
	fake_set(hold = true);
	ck_assert_str_eq(userev_why(&event), "the event is not registered");
	register_event(&event, "event");
	answer_all();
	ck_assert(!userev_enabled(&event));
	ck_assert_str_eq(userev_why(&event), "because");
}

WITH_DAEMON(released_before_answer_is_released_after_it)
{
	hold();
	register_event(&event, "event u32 number");
	register_event(&other, "other u32 number");
	userev_release(userev, &event);
	ck_assert_uint_eq(event.place.whole, 0);
	answer_all();
	fake_wait(fake_daemon->releases == 1);
	ck_assert_uint_eq(fake_daemon->released_bit, 1);
	expect_alive(&other, "other");
}

/* The new event has the same bit: releasing the bit later would switch the new event off. */
WITH_EVENT_ON(event_registered_again_is_not_released)
{
	static struct userev_event again;

	hold();
	register_event(&again, "event u32 number");
	userev_release(userev, &event);
	answer_all();
	expect_alive(&again, "event");
	ck_assert_uint_eq(fake_daemon->releases, 0);
}

/* Although all bits differed at the last scan. */
WITH_EVENT_ON(late_answer_keeps_bit_of_same_event)
{
	static struct userev_event again;

	register_event(&other, "other u32 number");
	userev_release(userev, &other);
	hold();
	register_event(&again, "event u32 number");
	userev_release(userev, &again);
	answer_all();
	ck_assert_uint_eq(fake_daemon->releases, 1);
	ck_assert_uint_eq(fake_daemon->released_bit, 2);
	expect_alive(&event, "event");
}

WITHOUT_DAEMON(events_become_usable_when_daemon_starts)
{
	static struct userev_event released;
	char description[] = "event u32 number";

	register_event(&released, "released");
	userev_release(userev, &released);
	register_event(&event, description);
	memset(description, 'x', sizeof(description) - 1);
	register_event(&other, "other u32 number");
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_ptr_nonnull(strstr(userev_why(&event), "there is no daemon"));
	fake_start();
	/* The 32-bit milliseconds change their sign every 25 days: this time is in the past. */
	userev->look_at = clock_coarse_ms() - 0x90000000U;
	test_until_alive(&event);
	test_until_alive(&other);
	expect_alive(&event, "event");
	ck_assert_uint_eq(fake_daemon->registers, 1);
	ck_assert_uint_eq(fake_daemon->items, 2);
}

WITHOUT_DAEMON(tests_without_daemon_rarely_connect)
{
	register_event(&event, "event");
	test_for_a_while();
	/* 100 ms, 200 ms, 400 ms … after the first two; on a slow machine all of that may pass. */
	ck_assert_uint_lt(userev->failures, 20);
	ck_assert_int_gt(userev->not_before, 0);
}

WITH_DAEMON_ONLY(refusing_daemon_is_not_asked_in_a_loop)
{
	fake_do(ERROR_PACKET, KIND_HELLO);
	userev = open_library();
	register_event(&event, "event u32 number");
	ck_assert_str_eq(userev_why(&event), "too many of you; close some");
	test_for_a_while();
	ck_assert_uint_lt(fake_daemon->accepted, 20);
	fake_do(GOOD, 0);
	test_until_alive(&event);
	expect_alive(&event, "event");
}

static void *register_other(void *data)
{
	userev_register(userev, &other, "other", 0);
	return data;
}

/* Read without the lock, which the other thread has. */
__attribute__((noipa, no_sanitize_thread)) static bool other_is_registered(void)
{
	return other.place.whole != 0;
}

WITH_DAEMON(event_test_does_not_wait_for_thread)
{
	pthread_t thread;

	hold();
	register_event(&event, "event u32 number");
	session_answer_timeout_ms = 1000000;
	pthread_create(&thread, NULL, register_other, NULL);
	while (!other_is_registered())
		usleep(1000);
	/* The thread holds the lock, and would for a quarter of an hour. */
	for (int i = 0; i < 100; i++) {
		ck_assert(!userev_enabled(&event));
		usleep(100);
	}
	fake_set(hold = false);
	pthread_join(thread, NULL);
	expect_alive(&event, "event");
}

/* Although no answer is pending whose arrival would be a sign of room. */
WITH_DAEMON(request_waits_for_room_in_the_socket)
{
	uint8_t lost[sizeof(struct wire_header) + sizeof(struct wire_lost)];
	struct packet packet = packet_make(lost, sizeof(lost));
	pthread_t thread;

	encode_begin(&packet, KIND_LOST, 0, 0, NULL, 0);
	encode_fixed(&packet, KIND_LOST, &(struct wire_lost){ 0 });
	encode_end(&packet);
	fake_set(hold = true);
	while (transport_send(userev->connection.fd, lost, sizeof(lost), NULL, 0, MSG_DONTWAIT) == 0)
		;
	session_answer_timeout_ms = 20000;
	pthread_create(&thread, NULL, register_other, NULL);
	while (!other_is_registered())
		usleep(1000);
	fake_set(hold = false);
	pthread_join(thread, NULL);
	expect_alive(&other, "other");
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
WITHOUT_DAEMON(forking_signal_handler_does_not_deadlock)
{
	const struct itimerval soon = { .it_value = { 0, 200 } };
	struct sigaction action = { .sa_handler = fork_once };

	register_event(&event, "event");
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 50; i++) {
		setitimer(ITIMER_REAL, &soon, NULL);
		while (forks == i) {
			userev->look_at = clock_coarse_ms();
			userev->not_before = 0;
			ck_assert(!userev_enabled(&event));
		}
	}
}

WITH_EVENT_ON(write_notices_daemon_end_and_reconnects)
{
	register_event(&other, "other u32 number");
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	fake_stop();
	ck_assert(userev_enabled(&event));
	/* ECONNRESET first, for the record that the daemon left unread, then EPIPE. */
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_int_eq(userev_write(&event, "data", 4), 0);
	ck_assert_uint_eq(userev_lost(userev).queue_full, 0);
	/* The stream has ended, so the event is off. */
	while (userev_enabled(&event) || userev->connection.state == CONNECTION_UP)
		userev_write(&event, "data", 4);
	fake_start();
	while (userev->connection.state != CONNECTION_UP)
		userev_enabled(&other);
	test_until_alive(&other);
	test_until_alive(&event);
	expect_alive(&event, "event");
	expect_alive(&other, "other");
}

/* With the kernel backends records are still taken after the connection has ended. */
WITH_EVENT_ON(event_stays_on_until_new_grant)
{
	uint32_t index;
	char got[8];

	fake_set(keep_records = true);
	fake_set(hold = true);
	shutdown(userev->connection.fd, SHUT_RDWR);
	ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
	ck_assert(userev->connection.state != CONNECTION_UP);
	ck_assert(userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, "data", 4), 4);
	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), 4);
	fake_switch("event", false);
	ck_assert(!userev_enabled(&event));
	answer_all();
	fake_set(keep_records = false);
	expect_alive(&event, "event");
}

static int live_under_a_seal(void)
{
	userev_seal(userev);
	if (event.place.part.bit & USEREV_PENDING_ || !userev_enabled(&event) || userev_write(&event, "data", 4) != 4)
		return 1;
	/* A failed write does not connect, either. */
	close(stream_at(event.place)->fd);
	userev_write(&event, "data", 4);
	return userev->connection.fd >= 0 ? 2 : 0;
}

WITHOUT_DAEMON(sealed_userev_does_not_connect)
{
	unsigned failures;

	register_event(&event, "event");
	failures = userev->failures;
	userev_seal(userev);
	userev->not_before = 0;
	for (int i = 0; i < 100; i++)
		ck_assert(!userev_enabled(&event));
	ck_assert_uint_eq(event.place.part.bit, 0);
	ck_assert_uint_eq(userev->failures, failures);
}

/* Here in a child that has not verified its fds yet. */
WITH_EVENT_ON(seal_keeps_grants_and_stops_connecting)
{
	run_in_child(fork, live_under_a_seal);
}

/* The lines of a userev with that value of $USEREV_DEBUG. */
static const char *stderr_with(const char *debug)
{
	static char said[4096];
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t got;

	setenv("USEREV_DEBUG", debug, 1);
	ck_assert_int_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	userev = open_library();
	userev_register(userev, &event, "event", 0);
	close_library();
	dup2(saved, STDERR_FILENO);
	got = read(ends[0], said, sizeof(said) - 1);
	said[MAX(got, 0)] = '\0';
	close(saved);
	close(ends[0]);
	close(ends[1]);
	return said;
}

WITH_DAEMON_ONLY(debug_prints_connections_and_refusals)
{
	const char *said;

	fake_refuse("event", REFUSAL_NOT_PERMITTED);
	ck_assert_str_eq(stderr_with(""), "");
	ck_assert_str_eq(stderr_with("0"), "");
	ck_assert_str_eq(stderr_with("refused"), "userev: refused: event: because\n");
	said = stderr_with("1");
	ck_assert_ptr_nonnull(strstr(said, "userev: connected: tenant /fake, at most 1024 events\n"));
	ck_assert_ptr_nonnull(strstr(said, "userev: refused: event: because\n"));
	fake_stop();
	said = stderr_with("1");
	ck_assert_ptr_nonnull(strstr(said, "userev: no connection to /"));
	ck_assert_ptr_nonnull(strstr(said, ": No such file or directory"));
}
