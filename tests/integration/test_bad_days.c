/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What one tenant gives to others, and keeps open, and leaves unread while it is stopped; and what the machine does to all of
 * them: a disk that is full, a clock that is set. The neighbour works on.
 */

#include <stdio.h>
#include <time.h>

#include "tests/integration/batch.h"
#include "tests/integration/scene.h"

enum { MAXIMUM = 64 };

static const char *const maximum[] = { "--max-events=64", NULL };

/* So many new events, one after the other; how many were granted. A stream that comes goes to `ret_stream`, if there is none. */
static unsigned take_events(int socket, const char *name, unsigned n, int *ret_stream)
{
	unsigned granted = 0;
	char event[64];

	for (unsigned i = 0; i < n; i++) {
		int stream = -1;

		snprintf(event, sizeof(event), "%s_%u u32 a", name, i);
		granted += raw_register(socket, event, NULL, &stream) == 0;
		if (*ret_stream < 0)
			*ret_stream = stream;
		else
			fd_close(stream);
	}
	return granted;
}

static unsigned take_and_keep_none(int socket, const char *name, unsigned n)
{
	int stream = -1;
	unsigned granted = take_events(socket, name, n, &stream);

	fd_close(stream);
	return granted;
}

/* Its events are all on one stream, since no more than that many are wanted of it. */
static void leave_a_copy_behind(const struct scene *scene)
{
	int socket = raw_hello(scene->fixture.socket, 0, NULL, NULL), stream = -1;
	struct holder holder;

	ck_assert_uint_eq(take_events(socket, "held", MAXIMUM, &stream), MAXIMUM);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(&scene->fixture, "lingering") >= MAXIMUM));
	socket = raw_hello(scene->fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(take_and_keep_none(socket, "more", 2), 0);
	ck_assert_uint_ge(status_number(&scene->fixture, "charges"), MAXIMUM);
	close(socket);
	holder_end(&holder);
	ck_assert(eventually(status_number(&scene->fixture, "lingering") < MAXIMUM));
}

TEST(a_data_file_that_lives_on_elsewhere_is_paid_for_until_it_is_closed)
{
	unsigned n = repetitions(3, 100);
	struct scene scene;

	scene_begin(&scene, "", maximum);
	for (unsigned i = 0; i < n; i++)
		leave_a_copy_behind(&scene);
	scene_end(&scene, 4096, "%u times %u events on a data file that another process holds", n, MAXIMUM);
}
END_TEST

TEST(what_is_asked_on_a_connection_of_another_tenant_costs_that_one)
{
	unsigned n = repetitions(3, 200), granted = 0;
	struct scene scene;
	int own;

	scene_begin(&scene, "", maximum);
	own = raw_hello(scene.fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(take_and_keep_none(own, "own", MAXIMUM + 1), MAXIMUM);
	for (unsigned i = 0; i < n; i++) {
		struct actor maker;

		actor_start(&maker, scene.fixture.socket, NULL);
		granted += take_and_keep_none(maker.socket, "handed_on", MAXIMUM + 1);
		ck_assert_uint_eq(raw_query(own).events, MAXIMUM);
		actor_end(&maker);
	}
	ck_assert_uint_eq(granted, n * MAXIMUM);
	close(own);
	scene_end(&scene, 4096, "%u connections of other tenants, each with %u events for who has got them", n,
		  MAXIMUM);
}
END_TEST

/* Another process, that watches its event, asks, and reads nothing. */
static _Noreturn void ask_and_watch(const char *path, int ready)
{
	int page, socket = actor_hello(path, &page);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	batch_put((const char *const[]){ "stopped u32 a" }, 1);
	raw_send(socket);
	encode_watch(raw_packet(KIND_WATCH), &(struct wire_watch){ .on = 1 });
	raw_send(socket);
	if (write(ready, "x", 1) != 1)
		_exit(EXIT_FAILURE);
	for (;;)
		pause();
}

static void stop_all(const struct scene *scene, pid_t *pids, unsigned n)
{
	int ready[2];
	char byte;

	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	for (unsigned i = 0; i < n; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i] == 0)
			ask_and_watch(scene->fixture.socket, ready[1]);
		ck_assert_int_eq(read(ready[0], &byte, 1), 1);
		ck_assert_int_eq(kill(pids[i], SIGSTOP), 0);
	}
	close(ready[0]);
	close(ready[1]);
}

static void end_all(const pid_t *pids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
	}
}

/* Each change is told to all of them, until there is no room. */
TEST(stopped_clients_keep_nobody_waiting)
{
	unsigned n = repetitions(20, 500), changes = repetitions(100, 2000);
	struct scene scene;
	pid_t pids[500];

	scene_begin(&scene, "", NULL);
	stop_all(&scene, pids, n);
	ck_assert(eventually(event_number(&scene.fixture, "stopped", "holders_total") == n));
	for (unsigned i = 0; i < changes; i++)
		ck_assert_uint_gt(trace(&scene.fixture, "stopped", i % 2 == 0), 0);
	scene_go_on(&scene);
	end_all(pids, n);
	scene_end(&scene, 16384, "%u clients that are stopped, and told of %u changes", n, changes);
}
END_TEST

/* All that it writes itself is its log; what it keeps for the next daemon is in memory. */
TEST(a_disk_that_is_full_costs_the_log_and_nothing_else)
{
	static const char *const talkative[] = { "--log-level=debug", NULL };
	unsigned n = repetitions(200, 20000);
	struct scene scene;

	scene_prepare(&scene, "");
	ck_assert_int_eq(symlink("/dev/full", scene.fixture.log), 0);
	scene_launch(&scene, talkative);
	/* So that nobody reads it: it has no end. */
	ck_assert_int_eq(unlink(scene.fixture.log), 0);
	for (unsigned i = 0; i < n; i++) {
		int socket = raw_hello(scene.fixture.socket, 0, NULL, NULL);

		ck_assert_uint_eq(raw_register(socket, "not a description", NULL, NULL), REFUSAL_BAD_DESCRIPTION);
		close(socket);
	}
	scene_end(&scene, 4096, "a full disk, and %u refusals for the log", n);
}
END_TEST

static void set_clock(const char *by)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += strtol(by, NULL, 10);
	ck_assert_msg(clock_settime(CLOCK_REALTIME, &now) == 0, "clock_settime: %s", strerror(errno));
}

static void set_clock_and_expect_patience_to_end(const struct scene *scene, const char *by, const char *back)
{
	int before = raw_connect(scene->fixture.socket), after;
	struct janitor janitor;

	janitor_start(&janitor, set_clock, back);
	set_clock(by);
	after = raw_connect(scene->fixture.socket);
	expect_cut(before, REFUSAL_TOO_SLOW);
	expect_cut(after, REFUSAL_TOO_SLOW);
	close(before);
	close(after);
	janitor_end(&janitor);
}

/* What that does inside is in tests/unit/daemon/process/test_clock.c. */
TEST(a_clock_that_is_set_changes_nothing)
{
	static const char *const impatient[] = { "--client-timeout=1", NULL };
	unsigned n = repetitions(10, 10);
	struct scene scene;

	if (!is_guest()) {
		printf("not possible here: a clock that is set, for it is not ours alone\n");
		return;
	}
	scene_begin(&scene, "", impatient);
	for (unsigned i = 0; i < n; i++) {
		set_clock_and_expect_patience_to_end(&scene, "-3600", "3600");
		set_clock_and_expect_patience_to_end(&scene, "3600", "-3600");
	}
	scene_end(&scene, 4096, "the clock set by an hour, %u times back and %u times on", n, n);
}
END_TEST

SUITE("bad_days", a_data_file_that_lives_on_elsewhere_is_paid_for_until_it_is_closed,
      what_is_asked_on_a_connection_of_another_tenant_costs_that_one, stopped_clients_keep_nobody_waiting,
      a_disk_that_is_full_costs_the_log_and_nothing_else, a_clock_that_is_set_changes_nothing)
