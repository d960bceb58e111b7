/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Connecting, restarted daemons, timeouts. */

#include "client/library/event.h"
#include "tests/unit/client/library/library_test.h"

WITH_DAEMON(restarted_daemon_may_assign_other_bits)
{
	static struct userev_event one, two, three;

	register_event(&one, "one");
	register_event(&two, "two");
	expect_alive(&one, "one");
	expect_alive(&two, "two");
	fake_restart();
	for (int i = 0; i < 20; i++)
		fake_switch((const char *[]){ "x", "y", "two" }[i % 3], false);
	register_event(&three, "three");
	expect_alive(&one, "one");
	expect_alive(&two, "two");
	expect_alive(&three, "three");
	/* Equal events share their new bit, too. */
	userev_release(userev, &two);
	ck_assert_uint_eq(fake_daemon->released_bit, 3);
}

WITH_EVENT_ON(refused_after_restart_is_off_until_next_daemon)
{
	static struct userev_event second, given_up;
	char copy[4];

	register_event(&second, "event2");
	fake_restart();
	fake_refuse("event", REFUSAL_QUOTA_EXCEEDED);
	expect_connected();
	ck_assert_str_eq(userev_refusal(), "because");
	ck_assert_str_eq(userev_why(&event), "because");
	ck_assert(event_copy_why(&event, copy, sizeof(copy)));
	ck_assert_str_eq(copy, "bec");
	expect_off(&event);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	/* The refused event is not sent with later requests. */
	fake_set(items = 0);
	register_event(&other, "other");
	ck_assert_uint_eq(fake_daemon->items, 1);
	/* Its former bit, which may be another event's now, is not released. */
	ck_assert_int_eq(userev_register(userev, &given_up, "event again", 0), -EDQUOT);
	userev_release(userev, &second);
	ck_assert_uint_eq(fake_daemon->releases, 0);
	fake_set(refuse = NULL);
	fake_restart();
	expect_connected();
	ck_assert_ptr_null(userev_why(&event));
	ck_assert(!event_copy_why(&event, copy, sizeof(copy)));
	expect_alive(&event, "event");
	expect_alive(&other, "other");
	/* The former refusal is not the reason of a later problem. */
	fake_stop();
	fake_do(SILENT, KIND_REGISTER);
	fake_start();
	session_answer_timeout_ms = 50;
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
}

WITH_DAEMON_ONLY(stream_may_arrive_early_or_late)
{
	uint32_t index;
	char got[8];

	fake_set(early_stream = true);
	userev = open_library();
	register_event(&events[0], "zero");
	expect_alive(&events[0], "zero");
	fake_set(keep_records = true);
	register_event(&events[1], "one");
	fake_set(fresh_stream = true);
	register_event(&events[2], "two");
	register_event(&events[3], "three");
	/* The fake daemon reads the latest stream only. Writing to the others is no error. */
	fake_switch("zero", true);
	fake_switch("two", true);
	ck_assert_int_eq(userev_write(&events[0], "data", 4), 0);
	ck_assert_int_eq(userev_write(&events[2], "data", 4), 0);
	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), -1);
	expect_alive(&events[3], "three");
}

WITH_DAEMON_ONLY(reason_before_disconnect_is_reported)
{
	fake_do(HANG_UP_UNREAD, KIND_HELLO);
	userev = open_library();
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	ck_assert_int_eq(userev_connected(userev), -EPROTO);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
}

WITH_DAEMON(earlier_error_does_not_fail_new_request)
{
	fake_lock();
	fake_error(fake_daemon->connection[0].fd, 0);
	shutdown(fake_daemon->connection[0].fd, SHUT_RDWR);
	fake_unlock();
	register_event(&event, "event u32 number");
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	expect_alive(&event, "event");
}

WITH_DAEMON_ONLY(silent_daemon_times_out_at_each_step)
{
	connection_silence_timeout_ms = 60;
	session_answer_timeout_ms = 20000;
	fake_do(SILENT, KIND_HELLO);
	userev = open_library();
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	fake_wait(fake_daemon->ended == 2);

	fake_do(SILENT, KIND_REGISTER);
	register_event(&event, "event");
	expect_off(&event);
	ck_assert_str_eq(userev_why(&event), "the daemon does not answer");

	fake_do(GOOD, 0);
	connection_silence_timeout_ms = 20000;
	register_event(&other, "other u32 number");
	fake_do(SILENT, KIND_RELEASE);
	connection_silence_timeout_ms = 60;
	userev_release(userev, &event);
	expect_off(&event);
	fake_wait(fake_daemon->accepted == fake_daemon->ended);

	fake_do(GOOD, 0);
	connection_silence_timeout_ms = 20000;
	expect_connected();
	expect_alive(&other, "other");
}

WITH_DAEMON(silent_daemon_is_waited_for_once)
{
	connection_silence_timeout_ms = 100000000;
	session_answer_timeout_ms = 50;
	fake_do(SILENT, KIND_REGISTER);
	register_event(&event, "event");
	session_answer_timeout_ms = 1000000;
	userev->connection.waiting_since -= session_answer_timeout_ms;
	register_event(&other, "other");
	ck_assert_str_eq(userev_why(&other), "the daemon has not answered yet");
}

static void on_alarm(int signal _unused_)
{
}

/* Although a timer interrupts the call more often than that. */
static void expect_timeout(void)
{
	const struct itimerval often = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };

	session_answer_timeout_ms = 60;
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

WITHOUT_DAEMON(signals_do_not_extend_timeout)
{
	fake_do(SILENT, KIND_HELLO);
	fake_start();
	expect_timeout();
}

WITHOUT_DAEMON(closed_socket_is_refused_full_one_retried)
{
	struct userev *first;
	int listener;

	close(fake_listen(fake_daemon->path, 0));
	ck_assert_int_eq(userev_connected(userev), -ECONNREFUSED);
	unlink(fake_daemon->path);
	listener = fake_listen(fake_daemon->path, 0);
	session_answer_timeout_ms = 50;
	first = open_library(); /* fills the backlog */
	register_event(&event, "event");
	/* Here nothing blocks, and no attempt counts as a failure. */
	session_answer_timeout_ms = 1000000;
	userev->failures = 0;
	for (unsigned i = 0; i < 10; i++) {
		userev->look_at = clock_coarse_ms();
		userev->not_before = 0;
		ck_assert(!userev_enabled(&event));
		ck_assert_int_eq(userev_poll(userev, 0), -EAGAIN);
		ck_assert_int_eq(userev->error, -EAGAIN);
		ck_assert_int_lt(userev->connection.fd, 0);
		ck_assert_uint_eq(userev->failures, 0);
		ck_assert_int_le(userev->not_before - clock_ms(), 10);
	}
	expect_timeout();
	userev_close(first);
	close(listener);
	unlink(fake_daemon->path);
}

WITH_EVENT_ON(dropped_connection_closes_its_stream)
{
	int old_stream;

	fake_set(keep_records = true);
	connection_silence_timeout_ms = 60;
	fake_do(SILENT, KIND_REGISTER);
	register_event(&other, "other");
	connection_silence_timeout_ms = 20000;
	fake_wait(fake_daemon->ended == 1);
	old_stream = fake_daemon->connection[0].records;
	ck_assert_int_lt(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	/* Used until the new grant, and closed then, before the event is released. */
	expect_alive(&event, "event");
	fake_do(GOOD, 0);
	expect_connected();
	ck_assert_int_eq(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	expect_alive(&event, "event");
}

/* The fake daemon is in this process, so the limit must affect only the client: its socket, or the fds that it receives. */
WITH_DAEMON_ONLY(without_free_fd_connecting_fails)
{
	struct rlimit limit, tight;

	userev = userev_open(NO_DAEMON, 0);
	getrlimit(RLIMIT_NOFILE, &limit);
	tight = (struct rlimit){ .rlim_cur = (rlim_t)lowest_free_fd(), .rlim_max = limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &tight);
	ck_assert_int_eq(userev_connected(userev), -EMFILE);
	register_event(&event, "event");
	expect_off(&event);
	setrlimit(RLIMIT_NOFILE, &limit);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
}

WITH_DAEMON_ONLY(socket_argument_overrides_environment)
{
	userev = userev_open(NULL, 0);
	expect_connected();
	close_library();
	userev = userev_open(NO_DAEMON, 0);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
}

TEST(open_refuses_flags_and_long_paths)
{
	char path[200];

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	ck_assert_ptr_null(userev_open(NULL, 1));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(userev_open(path, 0));
	ck_assert_int_eq(errno, ENAMETOOLONG);
	path[107] = '\0';
	userev_close(userev_open(path, 0));
	path[107] = 'x';
	path[108] = '\0';
	ck_assert_ptr_null(userev_open(path, 0));
}
