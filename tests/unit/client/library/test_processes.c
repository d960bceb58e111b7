/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Forks, threads and cancellation. */

#include "tests/unit/client/library/library_test.h"

static int be_the_child(struct userev *userev, struct userev_event *event, struct userev_event *own)
{
	if (!userev_enabled(event) || userev_write(event, "child", 5) != 5)
		return 1;
	if (userev_register(userev, own, "own", 0) != 0 || !userev_event_name(own))
		return 2;
	/* From now on it has a stream of its own. */
	if (!userev_enabled(event) || userev_write(event, "again", 5) != 5)
		return 3;
	userev_release(userev, event);
	userev_close(userev);
	return userev_enabled(own) ? 4 : 0;
}

static void expect_record(struct fake *fake, uint32_t stream, const char *text)
{
	char got[16] = "";
	uint32_t index;

	ck_assert_int_eq(fake_record(fake, &index, got, sizeof(got)), (ssize_t)strlen(text));
	ck_assert_str_eq(got, text);
	ck_assert_uint_eq(index / FAKE_STREAM, stream);
}

static void expect_that_a_child_goes_on(pid_t (*make_child)(void))
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 }, own = { 0 };
	pid_t child;

	register_event(userev, &event, "event");
	fake_switch(fake, "event", true);
	fake_set(fake, keep_records = true);
	child = make_child();
	if (child == 0)
		_exit(be_the_child(userev, &event, &own));
	expect_child_succeeds(child);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->hellos, 2);
	expect_record(fake, 1, "child");
	expect_record(fake, 2, "again");
	ck_assert_int_eq(userev_write(&event, "parent", 6), 6);
	expect_record(fake, 1, "parent");
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_uint_eq(fake->hellos, 2);
	ck_assert_uint_eq(fake->releases, 1);
	fake_set(fake, keep_records = false);
	userev_close(userev);
	fake_free(fake);
}

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

TEST(forked_child_makes_its_own_connection)
{
	expect_that_a_child_goes_on(fork);
}

TEST(raw_forked_child_makes_its_own_connection)
{
	expect_that_a_child_goes_on(raw_fork);
}

WITH_DAEMON(daemon_notices_parents_end_despite_child)
{
	static struct userev_event event;
	int hold[2];
	pid_t child;

	register_event(userev, &event, "event");
	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		char byte;

		close(hold[1]);
		_exit(read(hold[0], &byte, 1) == 0 && !userev_enabled(&event) ? 0 : 1);
	}
	close(hold[0]);
	/* As if the parent had been killed: close() without shutdown(). */
	close(userev->connection.fd);
	fake_wait(fake, fake->ended == 1);
	close(hold[1]);
	expect_child_succeeds(child);
	userev->connection.fd = -1;
}

TEST(child_reports_only_its_own_losses)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pid_t child;

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	atomic_fetch_add(&userev->unreported.queue_full, 7);
	child = fork();
	if (child == 0) {
		userev_write(&event, (char[5000]){ 0 }, 5000);
		userev_connected(userev);
		userev_close(userev);
		_exit(0);
	}
	expect_child_succeeds(child);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 1);
	ck_assert_uint_eq(fake->lost.queue_full, 0);
	userev_close(userev);
	fake_wait(fake, fake->ended == 2);
	ck_assert_uint_eq(fake->lost.queue_full, 7);
	fake_free(fake);
}

TEST(raw_forked_child_reports_no_parents_losses)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	pid_t child;

	register_event(userev, &event, "event char[8] text");
	fake_switch(fake, "event", true);
	child = raw_fork();
	if (child == 0)
		_exit(userev_write(&event, (char[5000]){ 0 }, 5000) == -E2BIG ? 0 : 1);
	expect_child_succeeds(child);
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_uint_eq(fake->lost.too_big, 0);
	fake_free(fake);
}

struct asker {
	struct userev *userev;
	struct userev_event event;
};

static void *ask_a_silent_daemon(void *data)
{
	struct asker *asker = data;

	userev_register(asker->userev, &asker->event, "event", 0);
	return NULL;
}

TEST(fork_during_wait_leaves_lock_free)
{
	struct fake *fake = start();
	struct asker asker = { .userev = open_to(fake) };
	struct userev_event own = { 0 };
	pthread_t thread;
	pid_t child;

	session_answer_timeout_ms = 100;
	fake_do(fake, SILENT, KIND_REGISTER);
	pthread_create(&thread, NULL, ask_a_silent_daemon, &asker);
	fake_wait(fake, fake->packets > 2);
	child = fork();
	if (child == 0)
		_exit(userev_register(asker.userev, &own, "own", 0) == 0 && own.place.whole != 0 ? 0 : 1);
	/* The thread had finished before it was cancelled. */
	ck_assert_int_eq(asker.userev->connection.n_pending, 1);
	expect_child_succeeds(child);
	pthread_join(thread, NULL);
	userev_close(asker.userev);
	fake_free(fake);
}

struct hammer {
	struct userev *userev;
	struct userev_event *event;
	atomic_bool stop;
	atomic_int records;
};

static void *hammer(void *data)
{
	struct hammer *hammer = data;

	while (!hammer->stop)
		for (int i = 0; i < 8; i++)
			if (userev_enabled(&hammer->event[i]) && userev_write(&hammer->event[i], "data", 4) == 4)
				hammer->records++;
	return NULL;
}

static void *register_and_release(void *data)
{
	struct hammer *hammer = data;
	struct userev_event own = { 0 };

	while (!hammer->stop) {
		userev_register(hammer->userev, &own, "own", 0);
		userev_release(hammer->userev, &own);
	}
	return NULL;
}

/* fake_record() asserts that each index belongs to its stream. */
static void drain(struct fake *fake, int least)
{
	uint32_t index;
	char got[8];

	for (int n = 0; n < least; usleep(100))
		while (fake_record(fake, &index, got, sizeof(got)) >= 0)
			n++;
}

TEST(threads_write_while_daemons_change)
{
	struct fake *fake = start();
	struct userev_event event[8] = { 0 };
	struct hammer state = { .event = event };
	pthread_t thread[4];
	char name[8][8];

	state.userev = open_to(fake);
	for (int i = 0; i < 8; i++) {
		snprintf(name[i], sizeof(name[i]), "event%d", i);
		ck_assert_int_eq(userev_register(state.userev, &event[i], name[i], 0), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 3 ? hammer : register_and_release, &state);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 8; i++)
			fake_switch(fake, name[(i + round) % 8], true);
		userev_connected(state.userev);
		drain(fake, 20);
		fake_stop(fake);
		fake_start(fake);
	}
	state.stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_gt(state.records, 0);
	userev_close(state.userev);
	fake_free(fake);
}

/* As userev_emit() does after it has tested the event. */
static void *write_whatever_it_is(void *data)
{
	struct hammer *hammer = data;

	while (!hammer->stop) {
		struct iovec pieces[2] = { { 0 }, { (char[]){ "data" }, 4 } };

		userev_write_pieces(hammer->event, pieces, 2);
	}
	return NULL;
}

/* For both connections fake_record() asserts the same. */
TEST(index_and_stream_always_belong_together)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake), *second = open_to(fake);
	struct userev_event event = { 0 }, other = { 0 };
	struct hammer state = { .event = &event };
	union userev_place place[2];
	pthread_t thread[2];
	uint32_t index;
	char got[8];

	register_event(userev, &event, "event");
	register_event(second, &other, "other");
	fake_switch(fake, "event", true);
	fake_switch(fake, "other", true);
	place[0] = event.place;
	place[1] = other.place;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, write_whatever_it_is, &state);
	for (int records = 0; records < 10000;) {
		for (int i = 0; i < 100; i++)
			place_grant(&event, place[i % 2]);
		records += fake_record(fake, &index, got, sizeof(got)) >= 0;
	}
	state.stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	userev_close(userev);
	userev_close(second);
	fake_free(fake);
}

static void *wait_to_be_cancelled(void *data)
{
	ask_a_silent_daemon(data);
	for (;;)
		pause();
	return NULL;
}

TEST(cancellation_waits_for_the_lock)
{
	struct fake *fake = start();
	struct asker asker = { .userev = open_to(fake) };
	pthread_t thread;
	void *result;

	session_answer_timeout_ms = 100;
	fake_do(fake, SILENT, KIND_REGISTER);
	pthread_create(&thread, NULL, wait_to_be_cancelled, &asker);
	fake_wait(fake, fake->packets > 2);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	fake_do(fake, GOOD, 0);
	session_answer_timeout_ms = 20000;
	asker.userev->connection.waiting_since -= connection_silence_timeout_ms;
	ck_assert_int_eq(userev_connected(asker.userev), 0);
	expect_alive(fake, &asker.event, "event");
	userev_close(asker.userev);
	fake_free(fake);
}

TEST(fds_are_close_on_exec_and_not_standard)
{
	struct fake *fake = start();
	struct userev_event event = { 0 };
	struct userev *userev;
	int saved[3];

	for (int fd = 0; fd < 3; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
		close(fd);
	}
	fake_set(fake, early_stream = true);
	userev = open_to(fake);
	register_event(userev, &event, "event");
	ck_assert_int_gt(userev->connection.fd, 2);
	ck_assert_int_gt(stream_at(event.place)->fd, 2);
	ck_assert_int_eq(fcntl(userev->connection.fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(stream_at(event.place)->fd, F_GETFD), FD_CLOEXEC);
	fake_stop(fake);
	fake_start(fake);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_gt(stream_at(event.place)->fd, 2);
	ck_assert_int_eq(fcntl(userev->connection.fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(stream_at(event.place)->fd, F_GETFD), FD_CLOEXEC);
	/* The socket that replaced the old stream, too. */
	ck_assert_int_eq(fcntl(TAILQ_FIRST(&userev->files.quarantine)->fd, F_GETFD), FD_CLOEXEC);
	userev_close(userev);
	fake_free(fake);
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
}

TEST(version_is_three_numbers)
{
	int major, minor, patch;

	ck_assert_int_eq(sscanf(userev_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}
