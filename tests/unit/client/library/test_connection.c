/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Connecting, restarted daemons, timeouts. */

#include "tests/unit/client/library/library_test.h"

TEST(pending_events_are_granted_at_daemon_start)
{
	struct fake *fake = fake_new();
	struct userev *userev = open_to(fake);
	struct userev_event early = { 0 }, late = { 0 }, released = { 0 };
	char description[] = "early u32 number";

	register_event(userev, &released, "released");
	userev_release(userev, &released);
	register_event(userev, &early, description);
	memset(description, 'x', sizeof(description) - 1);
	fake_start(fake);
	expect_off(&early);
	register_event(userev, &late, "late u32 number");
	expect_alive(fake, &early, "early");
	expect_alive(fake, &late, "late");
	ck_assert_uint_eq(fake->registers, 1);
	ck_assert_uint_eq(fake->items, 2);
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(restarted_daemon_may_assign_other_bits)
{
	static struct userev_event one, two, three;

	register_event(userev, &one, "one");
	register_event(userev, &two, "two");
	expect_alive(fake, &one, "one");
	expect_alive(fake, &two, "two");
	fake_stop(fake);
	fake_start(fake);
	for (int i = 0; i < 20; i++)
		fake_switch(fake, (const char *[]){ "x", "y", "two" }[i % 3], false);
	register_event(userev, &three, "three");
	expect_alive(fake, &one, "one");
	expect_alive(fake, &two, "two");
	expect_alive(fake, &three, "three");
	/* Equal events share their new bit, too. */
	userev_release(userev, &two);
	ck_assert_uint_eq(fake->released_bit, 3);
}

WITH_DAEMON(refused_after_restart_is_off_until_next_daemon)
{
	static struct userev_event event, second, other, given_up;

	register_event(userev, &second, "event2");
	register_event(userev, &event, "event");
	fake_switch(fake, "event", true);
	fake_stop(fake);
	fake_start(fake);
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_refusal(), "because");
	expect_off(&event);
	ck_assert_int_eq(userev_register(userev, &event, "event", 0), -EBUSY);
	/* The refused event is not sent with later requests. */
	fake_set(fake, items = 0);
	register_event(userev, &other, "other");
	ck_assert_uint_eq(fake->items, 1);
	/* Its former bit, which may be another event's now, is not released. */
	ck_assert_int_eq(userev_register(userev, &given_up, "event again", 0), -EDQUOT);
	userev_release(userev, &second);
	ck_assert_uint_eq(fake->releases, 0);
	fake_set(fake, refuse = NULL);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &event, "event");
	expect_alive(fake, &other, "other");
}

WITH_DAEMON(grant_clears_former_refusal)
{
	static struct userev_event event;

	register_event(userev, &event, "event u32 number");
	fake_stop(fake);
	fake_set(fake, refuse = "event");
	fake_set(fake, refusal = REFUSAL_QUOTA_EXCEEDED);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_str_eq(userev_why(&event), "because");
	fake_set(fake, refuse = NULL);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_ptr_null(userev_why(&event));
	expect_alive(fake, &event, "event");
	/* The former refusal is not the reason of a later problem. */
	fake_stop(fake);
	fake_do(fake, SILENT, KIND_REGISTER);
	fake_start(fake);
	session_answer_timeout_ms = 50;
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	ck_assert_str_eq(userev_why(&event), "the daemon has not answered yet");
}

TEST(stream_may_arrive_early_or_late)
{
	struct fake *fake = start();
	struct userev_event event[4] = { 0 };
	struct userev *userev;
	uint32_t index;
	char got[8];

	fake_set(fake, early_stream = true);
	userev = open_to(fake);
	register_event(userev, &event[0], "zero");
	expect_alive(fake, &event[0], "zero");
	fake_set(fake, keep_records = true);
	register_event(userev, &event[1], "one");
	fake_set(fake, fresh_stream = true);
	register_event(userev, &event[2], "two");
	register_event(userev, &event[3], "three");
	/* The fake daemon reads the latest stream only. Writing to the others is no error. */
	fake_switch(fake, "zero", true);
	fake_switch(fake, "two", true);
	ck_assert_int_eq(userev_write(&event[0], "data", 4), 0);
	ck_assert_int_eq(userev_write(&event[2], "data", 4), 0);
	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), -1);
	expect_alive(fake, &event[3], "three");
	userev_close(userev);
	fake_free(fake);
}

TEST(reason_before_disconnect_is_reported)
{
	struct fake *fake = start();
	struct userev *userev;

	fake_do(fake, HANG_UP_UNREAD, KIND_HELLO);
	userev = open_to(fake);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	ck_assert_int_eq(userev_connected(userev), -EPROTO);
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	userev_close(userev);
	fake_free(fake);
}

WITH_DAEMON(earlier_error_does_not_fail_new_request)
{
	static struct userev_event event;

	fake_lock(fake);
	fake_error(fake->connection[0].fd, 0);
	shutdown(fake->connection[0].fd, SHUT_RDWR);
	fake_unlock(fake);
	register_event(userev, &event, "event u32 number");
	ck_assert_str_eq(userev_refusal(), "too many of you; close some");
	expect_alive(fake, &event, "event");
}

TEST(silent_daemon_times_out_at_each_step)
{
	struct fake *fake = start();
	struct userev_event event = { 0 }, other = { 0 };
	struct userev *userev;

	connection_silence_timeout_ms = 60;
	session_answer_timeout_ms = 20000;
	fake_do(fake, SILENT, KIND_HELLO);
	userev = open_to(fake);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	fake_wait(fake, fake->ended == 2);

	fake_do(fake, SILENT, KIND_REGISTER);
	register_event(userev, &event, "event");
	expect_off(&event);
	ck_assert_str_eq(userev_why(&event), "the daemon does not answer");

	fake_do(fake, GOOD, 0);
	connection_silence_timeout_ms = 20000;
	register_event(userev, &other, "other u32 number");
	fake_do(fake, SILENT, KIND_RELEASE);
	connection_silence_timeout_ms = 60;
	userev_release(userev, &event);
	expect_off(&event);
	fake_wait(fake, fake->accepted == fake->ended);

	fake_do(fake, GOOD, 0);
	connection_silence_timeout_ms = 20000;
	ck_assert_int_eq(userev_connected(userev), 0);
	expect_alive(fake, &other, "other");
	userev_close(userev);
	fake_free(fake);
}

static void on_alarm(int signal _unused_)
{
}

TEST(signals_do_not_extend_timeout)
{
	const struct itimerval often = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	struct sigaction action = { .sa_handler = on_alarm };
	struct fake *fake = start();
	struct userev *userev;

	sigaction(SIGALRM, &action, NULL);
	session_answer_timeout_ms = 100;
	fake_do(fake, SILENT, KIND_HELLO);
	setitimer(ITIMER_REAL, &often, NULL);
	userev = open_to(fake);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	userev_close(userev);
	fake_free(fake);
}

TEST(connect_to_full_backlog_times_out)
{
	const struct itimerval often = { .it_interval = { 0, 3000 }, .it_value = { 0, 3000 } };
	struct sigaction action = { .sa_handler = on_alarm };
	struct fake *fake = fake_new();
	int listener = fake_listen(fake->path, 0);
	struct userev *userev;

	session_answer_timeout_ms = 60;
	/* The first connection fills the backlog. */
	userev = open_to(fake);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	ck_assert_int_eq(userev_connected(userev), -ETIMEDOUT);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	userev_close(userev);
	close(listener);
	unlink(fake->path);
	fake_free(fake);
}

WITH_DAEMON(dropped_connection_closes_its_stream)
{
	static struct userev_event event;
	static struct userev_event other;
	int old_stream;

	register_event(userev, &event, "event");
	fake_set(fake, keep_records = true);
	connection_silence_timeout_ms = 60;
	fake_do(fake, SILENT, KIND_REGISTER);
	register_event(userev, &other, "other");
	connection_silence_timeout_ms = 20000;
	fake_wait(fake, fake->ended == 1);
	old_stream = fake->connection[0].records;
	ck_assert_int_lt(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	/* Used until the new grant, and closed then, before the event is released. */
	expect_alive(fake, &event, "event");
	fake_do(fake, GOOD, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(recv(old_stream, &(char){ 0 }, 1, 0), 0);
	expect_alive(fake, &event, "event");
	fake_set(fake, keep_records = false);
}

/* The fake daemon is in this process, so the limit must affect only the client: its socket, or the fds that it receives. */
TEST(without_free_fd_connecting_fails)
{
	struct fake *fake = start();
	struct userev *userev = userev_open(NO_DAEMON, 0);
	struct userev_event event = { 0 };
	struct rlimit limit, tight;

	getrlimit(RLIMIT_NOFILE, &limit);
	tight = (struct rlimit){ .rlim_cur = (rlim_t)lowest_free_fd(), .rlim_max = limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &tight);
	ck_assert_int_eq(userev_connected(userev), -EMFILE);
	register_event(userev, &event, "event");
	expect_off(&event);
	setrlimit(RLIMIT_NOFILE, &limit);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_close(userev);
	fake_free(fake);
}

TEST(socket_argument_overrides_environment)
{
	struct fake *fake = start();
	struct userev *userev;

	setenv("USEREV_SOCKET", fake->path, 1);
	userev = userev_open(NULL, 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	userev_close(userev);
	userev = userev_open(NO_DAEMON, 0);
	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	userev_close(userev);
	fake_free(fake);
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
