/* SPDX-License-Identifier: GPL-2.0-or-later */

/* libuserev with the real daemon, and its records as an admin sees them. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/userev.h"
#include "protocol/event/record.h"
#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

static struct fixture fixture;

/* What the tracer has of an event. */
static struct seen look_at(const char *event)
{
	struct seen seen;

	see(&fixture, event, &seen);
	return seen;
}

static void expect_last_record(const char *event, const char *expected)
{
	static struct description description;
	char sentence[256], record[256] = "";
	struct text why = text_make(sentence, sizeof(sentence)), text = text_make(record, sizeof(record));
	struct seen seen = look_at(event);

	ck_assert_uint_gt(seen.records, 0);
	ck_assert_int_eq(description_parse(seen.description, strlen(seen.description), &description, &why), 0);
	record_to_text(&description, seen.payload, seen.length, &text);
	ck_assert_str_eq(record, expected);
}

static struct userev *open_library(void)
{
	struct userev *userev = userev_open(fixture.socket, 0);

	ck_assert_ptr_nonnull(userev);
	ck_assert_int_eq(userev_connected(userev), 0);
	return userev;
}

static void register_event(struct userev *userev, struct userev_event *event, const char *description)
{
	int r = userev_register(userev, event, description, 0);

	ck_assert_msg(r == 0, "%s: %s (%s)", description, strerror(-r), userev_refusal());
}

TEST(event_reaches_the_admins_screen)
{
	struct userev_event event = { 0 };
	struct userev *userev;
	struct seen seen;
	struct {
		uint32_t status;
		uint32_t where;
		char path[6];
	} payload = { 200, 6 << 16, "/cart" };

	fixture_start(&fixture, NULL);
	userev = open_library();
	ck_assert(!userev_enabled(&event));
	register_event(userev, &event, "request u32 status; __rel_loc char[] path");
	ck_assert_str_eq(userev_event_name(&event), "request");
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 0);

	ck_assert_uint_eq(trace(&fixture, "request", true), 1);
	ck_assert(userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 14);
	seen = look_at("request");
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, getpid());
	expect_last_record("request", "status=200 path=\"/cart\"");
	if (keeps_records_itself(&fixture)) {
		ck_assert_uint_eq(seen.uid, getuid());
		ck_assert_uint_gt(seen.time, UINT64_C(1600000000000000000));
		ck_assert_str_ne(seen.comm, "unknown");
	}

	ck_assert_uint_eq(trace(&fixture, "request", false), 1);
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 0);
	ck_assert_uint_eq(look_at("request").records, 1);
	userev_close(userev);
	ck_assert(!userev_enabled(&event));
	fixture_stop(&fixture);
}
END_TEST

TEST(payload_in_pieces_is_one_record)
{
	struct userev_event event = { 0 };
	uint32_t numbers[3] = { 1, 2, 3 };
	struct iovec pieces[] = { { &numbers[0], 4 }, { &numbers[1], 4 }, { &numbers[2], 4 } };
	struct userev *userev;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &event, "three u32 a; u32 b; u32 c");
	trace(&fixture, "three", true);
	ck_assert_int_eq(userev_writev(&event, pieces, 3), 12);
	expect_last_record("three", "a=1 b=2 c=3");
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(record_without_fields_arrives)
{
	struct userev_event event = { 0 };
	struct userev *userev;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &event, "happened");
	trace(&fixture, "happened", true);
	ck_assert_int_eq(userev_write(&event, NULL, 0), 0);
	ck_assert_int_eq(userev_writev(&event, NULL, 0), 0);
	ck_assert_uint_eq(look_at("happened").records, 2);
	trace(&fixture, "happened", false);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(refusal_explains_itself_and_charges_nothing)
{
	struct userev_event event = { 0 }, other = { 0 };
	struct userev *userev;

	fixture_start_with_policy(&fixture, "[/**]\nAllowMultiFormat=no\n",
				  (const char *const[]){ "--max-events=1", NULL });
	userev = open_library();
	ck_assert_int_eq(userev_register(userev, &event, "bad u32 a; long b", 0), -EINVAL);
	ck_assert_str_eq(userev_refusal(), "field 2: 'long' has no fixed size; use s64 or u64");
	register_event(userev, &event, "first u32 a");
	ck_assert_int_eq(userev_register(userev, &other, "first u64 a", 0), -EEXIST);
	ck_assert_int_eq(userev_register(userev, &other, "second", 0), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "1 of 1 events"));
	ck_assert_int_eq(userev_register(userev, &other, "second", USEREV_PERSIST),
			 refusal_to_errno(refusal_to_persist(&fixture)));
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	userev_release(userev, &event);
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	register_event(userev, &other, "second");
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_thousand_events_are_registered_in_one_call)
{
	enum { N = 1000 };
	static struct userev_event events[N];
	static struct userev_registration list[N];
	static char descriptions[N][32];
	struct userev *userev;

	fixture_start(&fixture, NULL);
	userev = open_library();
	for (int i = 0; i < N; i++) {
		snprintf(descriptions[i], sizeof(descriptions[i]), "many_%d u32 n", i);
		list[i] = (struct userev_registration){ .event = &events[i], .description = descriptions[i] };
	}
	ck_assert_int_eq(userev_register_all(userev, list, N), 0);
	/* On a slow machine a call times out; the next one sends the rest. */
	ck_assert(eventually(userev_connected(userev) == 0));
	ck_assert_uint_eq(status_number(&fixture, "leases"), N);
	ck_assert_uint_eq(trace(&fixture, "many_777", true), 1);
	for (int i = 0; i < N; i++) {
		ck_assert_msg(userev_enabled(&events[i]) == (i == 777), "event %d", i);
		ck_assert_int_eq(userev_write(&events[i], &i, sizeof(i)), i == 777 ? 4 : 0);
	}
	ck_assert_uint_eq(look_at("many_777").records, 1);
	expect_last_record("many_777", "n=777");
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(equal_events_of_a_program_are_one_lease)
{
	struct userev_event one = { 0 }, other = { 0 };
	struct userev *userev;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &one, "shared u32 n");
	register_event(userev, &other, "shared   u32 n;");
	ck_assert_uint_eq(status_number(&fixture, "leases"), 1);
	userev_release(userev, &one);
	ck_assert_uint_eq(status_number(&fixture, "leases"), 1);
	trace(&fixture, "shared", true);
	ck_assert(userev_enabled(&other) && !userev_enabled(&one));
	trace(&fixture, "shared", false);
	userev_release(userev, &other);
	ck_assert_uint_eq(status_number(&fixture, "leases"), 0);
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(events_are_granted_when_daemon_starts)
{
	struct userev_event early = { 0 }, late = { 0 };
	struct userev *userev = userev_open("/nonexistent/userevd.sock", 0);
	char socket[sizeof(fixture.socket)];
	uint32_t n = 5;

	ck_assert_int_eq(userev_connected(userev), -ENOENT);
	register_event(userev, &early, "early u32 n");
	ck_assert(!userev_enabled(&early));
	ck_assert_int_eq(userev_write(&early, &n, sizeof(n)), 0);
	userev_close(userev);

	/* The same with a socket on which the daemon listens later. */
	fixture_start(&fixture, NULL);
	string_copy(socket, sizeof(socket), fixture.socket);
	ck_assert_int_eq(rename(fixture.socket, fixture.log), 0);
	userev = userev_open(socket, 0);
	memset(&early, 0, sizeof(early));
	register_event(userev, &early, "early u32 n");
	ck_assert_int_eq(rename(fixture.log, socket), 0);
	ck_assert_uint_eq(status_number(&fixture, "leases"), 0);
	register_event(userev, &late, "late u32 n");
	ck_assert_uint_eq(status_number(&fixture, "leases"), 2);
	trace(&fixture, "early", true);
	ck_assert(userev_enabled(&early));
	ck_assert_int_eq(userev_write(&early, &n, sizeof(n)), 4);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(program_reconnects_after_daemon_is_killed)
{
	struct userev_event event = { 0 }, more = { 0 };
	struct userev *userev;
	struct fixture dead, next;
	uint32_t n = 1;
	ssize_t written;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &event, "survivor u32 n");
	trace(&fixture, "survivor", true);
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	fixture_end(&fixture, SIGKILL);
	written = userev_write(&event, &n, sizeof(n));
	/* The kernel still takes records, until the keeper has switched off the remaining events. */
	ck_assert(written == 0 || (written == 4 && !keeps_records_itself(&fixture)));
	register_event(userev, &more, "more u32 n");

	fixture_start(&next, NULL);
	ck_assert_int_eq(rename(next.socket, fixture.socket), 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(rename(fixture.socket, next.socket), 0);
	dead = fixture;
	fixture = next;
	ck_assert_uint_eq(status_number(&fixture, "leases"), 2);
	ck_assert_uint_eq(trace(&fixture, "survivor", true), 1);
	ck_assert(userev_enabled(&event) && !userev_enabled(&more));
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	ck_assert_uint_eq(look_at("survivor").records, 1);
	userev_close(userev);
	fixture_stop(&fixture);
	fixture_abandon(&dead);
}
END_TEST

TEST(set_user_id_program_is_accepted)
{
	struct userev_event event = { 0 };
	int status;
	pid_t child;

	fixture_start(&fixture, NULL);
	child = fork();
	if (child == 0) {
		struct userev *userev;

		/* Real and effective user differ. Without root they stay the same. */
		if (geteuid() == 0 && setresuid(65534, 0, 0) < 0)
			_exit(2);
		userev = userev_open(fixture.socket, 0);
		_exit(userev_connected(userev) == 0 && userev_register(userev, &event, "privileged", 0) == 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	fixture_stop(&fixture);
}
END_TEST

TEST(parent_and_child_keep_events_after_fork)
{
	struct userev_event event = { 0 }, own = { 0 };
	struct userev *userev;
	uint32_t n = 1;
	int status, go[2];
	pid_t child;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &event, "forked u32 n");
	trace(&fixture, "forked", true);
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (child == 0) {
		bool good = userev_write(&event, &n, sizeof(n)) == 4;

		good &= userev_register(userev, &own, "childs_own u32 n", 0) == 0;
		good &= userev_enabled(&event) && userev_write(&event, &n, sizeof(n)) == 4;
		/* Until the parent has checked. */
		good &= write(STDOUT_FILENO, "", 0) == 0 && read(go[0], &n, 1) >= 0;
		userev_close(userev);
		_exit(good ? 0 : 1);
	}
	ck_assert(eventually(event_number(&fixture, "childs_own", "holders_total") == 1));
	ck_assert_uint_eq(event_number(&fixture, "forked", "holders_total"), 2);
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	ck_assert(eventually(look_at("forked").records == 3));
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	/* The child had a connection of its own: the parent's is still open. */
	ck_assert_int_eq(userev_connected(userev), 0);
	register_event(userev, &own, "parents_own u32 n");
	userev_close(userev);
	close(go[0]);
	close(go[1]);
	fixture_stop(&fixture);
}
END_TEST

TEST(child_keeps_events_after_parents_end)
{
	int go[2], done[2], status;
	pid_t parent;
	char byte;

	fixture_start(&fixture, NULL);
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(done), 0);
	parent = fork();
	if (parent == 0) {
		static struct userev_event event;
		struct userev *userev = userev_open(fixture.socket, 0);
		uint32_t n = 7;

		if (userev_register(userev, &event, "daemonised u32 n", 0) < 0)
			_exit(1);
		if (fork() > 0)
			_exit(0);
		/* As a program does that goes to the background. Then it waits until the event is enabled. */
		if (read(go[0], &byte, 1) != 1 || !userev_enabled(&event) || userev_write(&event, &n, sizeof(n)) != 4)
			_exit(1);
		_exit(write(done[1], "x", 1) != 1);
	}
	ck_assert_int_eq(waitpid(parent, &status, 0), parent);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(trace(&fixture, "daemonised", true), 1);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	close(done[1]);
	ck_assert_int_eq(read(done[0], &byte, 1), 1);
	expect_last_record("daemonised", "n=7");
	trace(&fixture, "daemonised", false);
	close(done[0]);
	close(go[0]);
	close(go[1]);
	fixture_stop(&fixture);
}
END_TEST

TEST(each_lost_record_is_counted)
{
	enum { N = 20000 };
	static char filler[1000];
	struct userev_event event = { 0 };
	struct userev *userev;
	uint64_t written = 0, lost = 0;

	/* The kernel's tracers lose no records. */
	fixture_start(&fixture, (const char *const[]){ "--backend=embedded", NULL });
	userev = open_library();
	register_event(userev, &event, "flood u32 n; char[996] filler");
	trace(&fixture, "flood", true);
	/* A daemon that is stopped. */
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	for (int i = 0; i < N; i++) {
		ssize_t n = userev_write(&event, filler, sizeof(filler));

		ck_assert_msg(n == sizeof(filler) || n == -EAGAIN, "%zd", n);
		written += n > 0;
		lost += n < 0;
	}
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	ck_assert_uint_gt(written, 0);
	ck_assert_uint_gt(lost, 0);
	ck_assert_uint_eq(userev_lost(userev).queue_full, lost);
	ck_assert(eventually(event_number(&fixture, "flood", "records") == written));
	userev_release(userev, &event);
	ck_assert_uint_eq(tenant_number(&fixture, "lost"), lost);
	trace(&fixture, "flood", false);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(record_above_maximum_is_refused_and_counted)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	struct userev_event event = { 0 };
	struct userev *userev;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &event, "big");
	trace(&fixture, "big", true);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX), WIRE_PAYLOAD_MAX);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), -E2BIG);
	ck_assert_uint_eq(userev_lost(userev).too_big, 1);
	ck_assert_uint_eq(look_at("big").records, 1);
	userev_release(userev, &event);
	ck_assert_uint_eq(tenant_number(&fixture, "too_big"), 1);
	trace(&fixture, "big", false);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

enum { THREADS = 4, ROUNDS = 300, FEWER_ROUNDS = 30 };

struct worker {
	struct userev *userev;
	unsigned number;
	uint32_t rounds;
	uint64_t written;
	struct userev_event *common;
};

static void *work(void *data)
{
	struct worker *worker = data;
	struct userev_event own = { 0 };
	char description[64];

	snprintf(description, sizeof(description), "worker_%u u32 n", worker->number);
	for (uint32_t i = 1; i <= worker->rounds; i++) {
		uint32_t n = 1;

		if (userev_register(worker->userev, &own, description, 0) != 0)
			return (void *)(uintptr_t) "refused";
		if (userev_write(worker->common, &n, sizeof(n)) == sizeof(n))
			worker->written++;
		userev_release(worker->userev, &own);
	}
	return NULL;
}

TEST(threads_register_write_and_release_at_once)
{
	struct userev_event common = { 0 };
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct userev *userev;
	const uint32_t rounds = is_emulated() ? FEWER_ROUNDS : ROUNDS;
	uint64_t written = 0;
	struct seen seen;

	fixture_start(&fixture, NULL);
	userev = open_library();
	register_event(userev, &common, "common u32 n");
	trace(&fixture, "common", true);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .userev = userev, .number = i, .rounds = rounds, .common = &common };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *complaint;

		ck_assert_int_eq(pthread_join(threads[i], &complaint), 0);
		ck_assert_msg(!complaint, "%s", (char *)complaint);
		written += workers[i].written;
	}
	seen = look_at("common");
	ck_assert_uint_eq(seen.records, written);
	ck_assert_uint_eq(seen.sum, written);
	ck_assert_uint_eq(written + userev_lost(userev).queue_full, THREADS * rounds);
	trace(&fixture, "common", false);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

static bool differs(const char *name, char *ret, size_t size)
{
	struct tally now;

	tally_take(&fixture, &now);
	tally_compare(&fixture.before, &now, ret, size);
	return strstr(ret, name) != NULL;
}

/* The keeper starts a spare enabler after it has answered. */
static void expect_difference(const char *name)
{
	char difference[256];

	ck_assert_msg(eventually(differs(name, difference, sizeof(difference))), "the fixture overlooks %s: '%s'", name,
		      difference);
}

TEST(fixture_detects_leftovers)
{
	struct userev_event event = { 0 };
	char difference[256];
	struct userev *userev;

	fixture_start(&fixture, NULL);
	ck_assert_msg(tally_settles(&fixture, &fixture.before, difference, sizeof(difference)), "%s", difference);
	userev = open_library();
	expect_difference("fds");
	expect_difference("connections");
	expect_difference("tenants");
	register_event(userev, &event, "left u32 n");
	expect_difference("events");
	expect_difference("leases");
	expect_difference("streams");
	expect_difference("charges");
	if (fixture.keeper)
		expect_difference("keeper_fds");
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

SUITE("library", event_reaches_the_admins_screen, payload_in_pieces_is_one_record, record_without_fields_arrives,
      refusal_explains_itself_and_charges_nothing, a_thousand_events_are_registered_in_one_call,
      equal_events_of_a_program_are_one_lease, events_are_granted_when_daemon_starts,
      program_reconnects_after_daemon_is_killed, set_user_id_program_is_accepted,
      parent_and_child_keep_events_after_fork, child_keeps_events_after_parents_end, each_lost_record_is_counted,
      record_above_maximum_is_refused_and_counted, threads_register_write_and_release_at_once,
      fixture_detects_leftovers)
