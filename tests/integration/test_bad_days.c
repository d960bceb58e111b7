/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One tenant hands files and connections to others, keeps them open, and leaves answers unread while it is stopped; or the machine's
 * disk is full, or its clock is set. The neighbour works on.
 */

#include <stdio.h>
#include <time.h>

#include "tests/integration/scene.h"

enum { MAXIMUM = 64 };

/* The events are all on one stream, which takes that many. */
static void leave_a_copy_behind(const struct scene *scene)
{
	int socket = fixture_client(&scene->fixture), stream = -1;
	struct holder holder;

	take_batch(socket, numbered("held_%u u32 a", 0, MAXIMUM), MAXIMUM, NULL, &stream);
	leave_copy(&holder, socket, stream);
	ck_assert(eventually(status_number(&scene->fixture, "lingering") >= MAXIMUM));
	socket = fixture_client(&scene->fixture);
	ck_assert_uint_eq(take_events(socket, "more", 2, NULL), 0);
	ck_assert_uint_ge(status_number(&scene->fixture, "charges"), MAXIMUM);
	close(socket);
	holder_end(&holder);
	ck_assert(eventually(status_number(&scene->fixture, "lingering") < MAXIMUM));
}

SCENE_TEST(data_file_held_elsewhere_is_charged_until_closed, .options = { "--max-events=64" })
{
	unsigned n = repetitions(3, 100);

	for (unsigned i = 0; i < n; i++)
		leave_a_copy_behind(scene);
	scene_end(scene, 4096, "%u times %u events on a data file that another process holds", n, MAXIMUM);
}

SCENE_TEST(connection_used_by_another_tenant_costs_its_maker, .options = { "--max-events=64" })
{
	unsigned n = repetitions(3, 200);
	int own = fixture_client(&scene->fixture);

	ck_assert_uint_eq(take_events(own, "own", MAXIMUM + 1, NULL), MAXIMUM);
	for (unsigned i = 0; i < n; i++) {
		_cleanup_(actor_end) struct actor maker = actor_new(scene->fixture.socket, NULL);

		ck_assert_uint_eq(take_events(maker.socket, "handed_on", MAXIMUM + 1, NULL), MAXIMUM);
		expect_account(own, "events=%u", MAXIMUM);
	}
	close(own);
	scene_end(scene, 4096, "%u connections of other tenants, each with %u events for who has got them", n, MAXIMUM);
}

/* Asks for an event and watches it, but reads nothing. */
static _Noreturn void ask_and_watch(const char *path, int ready)
{
	int socket = raw_hello(path, UINT64_MAX, NULL, NULL);

	send_register(socket, "stopped u32 a");
	encode_fixed(raw_packet(KIND_WATCH), KIND_WATCH, &(struct wire_watch){ .on = 1 });
	raw_send(socket);
	ck_assert_int_eq(write(ready, "x", 1), 1);
	for (;;)
		pause();
}

static void start_stopped(const struct scene *scene, pid_t *pids, unsigned n)
{
	int ready[2];
	char byte;

	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	for (unsigned i = 0; i < n; i++) {
		pids[i] = start_process();
		if (pids[i] == 0)
			ask_and_watch(scene->fixture.socket, ready[1]);
		ck_assert_int_eq(read(ready[0], &byte, 1), 1);
		ck_assert_int_eq(kill(pids[i], SIGSTOP), 0);
	}
	close(ready[0]);
	close(ready[1]);
}

/* The daemon sends each change to all of them, while their queues have room. */
SCENE_TEST(stopped_clients_delay_no_other_client)
{
	unsigned n = repetitions(20, 500), changes = repetitions(100, 2000);
	pid_t pids[500];

	start_stopped(scene, pids, n);
	ck_assert(eventually(event_number(&scene->fixture, "stopped", "holders_total") == n));
	for (unsigned i = 0; i < changes; i++)
		ck_assert_uint_gt(trace(&scene->fixture, "stopped", i % 2 == 0), 0);
	scene_go_on(scene);
	for (unsigned i = 0; i < n; i++)
		kill_process(pids[i]);
	scene_end(scene, 16384, "%u clients that are stopped, and told of %u changes", n, changes);
}

/* The daemon itself writes its log alone; it keeps its state for the next daemon in memory. */
TEST(full_disk_costs_the_log_alone)
{
	static const char *const talkative[] = { "--log-level=debug", NULL };
	unsigned n = repetitions(200, 20000);
	struct scene scene;

	scene_prepare(&scene, "");
	ck_assert_int_eq(symlink("/dev/full", scene.fixture.log), 0);
	scene_launch(&scene, talkative);
	/* It has no end, so the fixture must not read it. */
	ck_assert_int_eq(unlink(scene.fixture.log), 0);
	for (unsigned i = 0; i < n; i++) {
		_cleanup_(fd_closep) int socket = fixture_client(&scene.fixture);

		ck_assert_uint_eq(raw_register(socket, "not a description", NULL, NULL), REFUSAL_BAD_DESCRIPTION);
	}
	scene_end(&scene, 4096, "a full disk, and %u refusals for the log", n);
}

static void set_clock(const char *by)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += strtol(by, NULL, 10);
	ck_assert_msg(clock_settime(CLOCK_REALTIME, &now) == 0, "clock_settime: %s", strerror(errno));
}

/* Two silent clients, one from before, time out. */
static void set_clock_and_expect_timeouts(const struct scene *scene, const char *by, const char *back)
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

/* The daemon's own use of the clock is tested in tests/unit/daemon/process/test_clock.c. */
SCENE_TEST(changed_clock_changes_nothing, .options = { "--client-timeout=1" }, .needs_guest = "a clock that is set")
{
	unsigned n = repetitions(10, 10);

	for (unsigned i = 0; i < n; i++) {
		set_clock_and_expect_timeouts(scene, "-3600", "3600");
		set_clock_and_expect_timeouts(scene, "3600", "-3600");
	}
	scene_end(scene, 4096, "the clock set by an hour, %u times back and %u times on", n, n);
}
