/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Forks, threads and cancellation. */

#include "tests/unit/client/library/library_test.h"

static struct userev_event own;

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int be_the_child(void)
{
	if (!userev_enabled(&event) || userev_write(&event, "child", 5) != 5)
		return 1;
	if (userev_register(userev, &own, "own", 0) != 0 || !userev_event_name(&own))
		return 2;
	/* From now on it has a stream of its own. */
	if (!userev_enabled(&event) || userev_write(&event, "again", 5) != 5)
		return 3;
	userev_release(userev, &event);
	close_library();
	return userev_enabled(&own) ? 4 : 0;
}

static void expect_record(uint32_t stream, const char *text)
{
	char got[16] = "";
	uint32_t index;

	ck_assert_int_eq(fake_record(&index, got, sizeof(got)), (ssize_t)strlen(text));
	ck_assert_str_eq(got, text);
	ck_assert_uint_eq(index / FAKE_STREAM, stream);
}

static void expect_child_goes_on(pid_t (*make_child)(void))
{
	register_event(&event, "event");
	fake_switch("event", true);
	fake_set(keep_records = true);
	run_in_child(make_child, be_the_child);
	fake_wait(fake_daemon->ended == 1);
	ck_assert_uint_eq(fake_daemon->hellos, 2);
	expect_record(1, "child");
	expect_record(2, "again");
	ck_assert_int_eq(userev_write(&event, "parent", 6), 6);
	expect_record(1, "parent");
	expect_connected();
	ck_assert_uint_eq(fake_daemon->hellos, 2);
	ck_assert_uint_eq(fake_daemon->releases, 1);
}

WITH_DAEMON(forked_child_makes_its_own_connection)
{
	expect_child_goes_on(fork);
}

WITH_DAEMON(raw_forked_child_makes_its_own_connection)
{
	expect_child_goes_on(raw_fork);
}

/* The daemon notices the parent's end while a child is running. */
static void expect_end_is_noticed(pid_t (*make_child)(void), void (*end)(void))
{
	int hold[2];
	pid_t child;

	register_event(&event, "event");
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	child = make_child();
	if (child == 0) {
		close(hold[1]);
		_exit(read(hold[0], &(char){ 0 }, 1) == 0 && !userev_enabled(&event) ? 0 : 1);
	}
	close(hold[0]);
	end();
	fake_wait(fake_daemon->ended == 1);
	close(hold[1]);
	expect_child_succeeds(child);
}

static void end_without_shutdown(void)
{
	userev->connection.fd = fd_close(userev->connection.fd);
}

WITH_DAEMON(killed_parents_end_is_noticed_despite_child)
{
	expect_end_is_noticed(fork, end_without_shutdown);
}

/* This child has a copy of the connection's fd. */
WITH_DAEMON(closed_connection_ends_despite_raw_fork)
{
	expect_end_is_noticed(raw_fork, close_library);
}

static int lose_one(void)
{
	return userev_write(&event, (char[5000]){ 0 }, 5000) == -E2BIG ? 0 : 1;
}

static int lose_one_and_close(void)
{
	int r = lose_one();

	userev_connected(userev);
	close_library();
	return r;
}

WITH_EVENT_ON(child_reports_only_its_own_losses)
{
	for (int i = 0; i < 7; i++)
		loss_add(userev, &userev->losses.queue_full);
	run_in_child(fork, lose_one_and_close);
	expect_reported(1, 0, 1);
	/* This child does not close its copy of the connection, on which it reports nothing. */
	run_in_child(raw_fork, lose_one);
	close_library();
	expect_reported(2, 7, 1);
}

/* Otherwise each record of the child would look at its connection, without end. */
static int write_and_be_unmarked(void)
{
	atomic_store(&userev->look_at, clock_coarse_ms());
	return userev_write(&event, "child", 5) == 5 && !files_are_marked(&userev->files) ? 0 : 1;
}

WITH_EVENT_ON(child_does_not_keep_its_parents_mark)
{
	fake_set(keep_records = true);
	loss_add(userev, &userev->losses.queue_full);
	run_in_child(fork, write_and_be_unmarked);
	run_in_child(raw_fork, write_and_be_unmarked);
	ck_assert(files_are_marked(&userev->files));
	ck_assert_uint_eq(fake_daemon->hellos, 1);
}

static void *register_at_silent_daemon(void *data)
{
	userev_register(userev, &event, "event", 0);
	return data;
}

static void *wait_to_be_cancelled(void *data)
{
	register_at_silent_daemon(data);
	for (;;)
		pause();
	return NULL;
}

/* Returns while the thread waits for the daemon's answer. */
static pthread_t start_waiting(void *(*what)(void *))
{
	pthread_t thread;

	session_answer_timeout_ms = 100;
	fake_do(SILENT, KIND_REGISTER);
	pthread_create(&thread, NULL, what, NULL);
	fake_wait(fake_daemon->packets > 2);
	return thread;
}

WITH_DAEMON(fork_during_wait_leaves_lock_free)
{
	pthread_t thread = start_waiting(register_at_silent_daemon);
	pid_t child = fork();

	if (child == 0)
		_exit(userev_register(userev, &own, "own", 0) == 0 && own.place.whole != 0 ? 0 : 1);
	/* fork() has waited for the end of the thread's call. */
	ck_assert_int_eq(userev->connection.n_pending, 1);
	expect_child_succeeds(child);
	pthread_join(thread, NULL);
}

WITH_DAEMON(cancellation_waits_for_the_lock)
{
	pthread_t thread = start_waiting(wait_to_be_cancelled);
	void *result;

	pthread_cancel(thread);
	pthread_join(thread, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	fake_do(GOOD, 0);
	session_answer_timeout_ms = 20000;
	userev->connection.waiting_since -= connection_silence_timeout_ms;
	expect_connected();
	expect_alive(&event, "event");
}

enum { THREADS = 4, WRITTEN = 8 };

static pthread_t threads[THREADS];
static atomic_bool stop;
static atomic_int records;

static void stop_threads(int n)
{
	stop = true;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void *test_and_write(void *data)
{
	while (!stop) {
		for (int i = 0; i < WRITTEN; i++)
			if (userev_enabled(&events[i]) && userev_write(&events[i], "data", 4) == 4)
				records++;
		/* For ThreadSanitizer: reporting must not read fields that WELCOME writes. */
		userev_write(&events[0], (char[5000]){ 0 }, 5000);
	}
	return data;
}

static void *register_and_release(void *data)
{
	while (!stop) {
		userev_register(userev, &own, "own", 0);
		userev_release(userev, &own);
	}
	return data;
}

/* fake_record() asserts that each index belongs to its stream. */
static void drain(int least)
{
	uint32_t index;
	char got[8];

	for (int n = 0; n < least; usleep(100))
		while (fake_record(&index, got, sizeof(got)) >= 0)
			n++;
}

WITH_DAEMON(threads_write_while_daemons_change)
{
	char name[WRITTEN][8];

	for (int i = 0; i < WRITTEN; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		register_event(&events[i], name[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, i < 3 ? test_and_write : register_and_release, NULL);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < WRITTEN; i++)
			fake_switch(name[i], true);
		userev_connected(userev);
		fake_set(lost.too_big = 0);
		drain(20);
		fake_wait(fake_daemon->lost.too_big > 0);
		fake_restart();
	}
	stop_threads(THREADS);
	ck_assert_int_gt(records, 0);
}

/* As userev_emit() does after it has tested the event. */
static void *write_without_test(void *data)
{
	while (!stop) {
		unsigned char record[8] = "....data";
		struct iovec pieces[2] = { { record, 4 }, { record + 4, 4 } };

		userev_write_buffer(&event, record, sizeof(record));
		userev_write_record(&event, pieces, 2);
	}
	return data;
}

/* For both connections fake_record() asserts the same. */
WITH_DAEMON(index_and_stream_always_belong_together)
{
	struct userev *second = open_library();
	union userev_place place[2];
	uint32_t index;
	char got[8];

	register_event(&event, "event");
	ck_assert_int_eq(userev_register(second, &other, "other", 0), 0);
	fake_switch("event", true);
	fake_switch("other", true);
	place[0] = event.place;
	place[1] = other.place;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, write_without_test, NULL);
	for (int n = 0; n < 10000;) {
		for (int i = 0; i < 100; i++)
			place_grant(&event, place[i % 2]);
		n += fake_record(&index, got, sizeof(got)) >= 0;
	}
	stop_threads(2);
	close_library();
	userev_close(second);
}

static void expect_close_on_exec(int fd)
{
	ck_assert_int_ge(fd, 100);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

TEST(fds_are_close_on_exec_and_high)
{
	int saved[3];

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		close(fd);
	}
	library_test_begin(true, false);
	fake_set(early_stream = true);
	userev = open_library();
	register_event(&event, "event");
	for (int i = 0; i < 2; i++) {
		expect_close_on_exec(userev->connection.fd);
		expect_close_on_exec(stream_at(event.place)->fd);
		fake_restart();
		expect_connected();
	}
	/* The socket that replaced the old stream, too. */
	expect_close_on_exec(QUEUE_FIRST(&userev->files.quarantine)->fd);
	library_test_end();
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}
