/* SPDX-License-Identifier: GPL-2.0-or-later */

/* libuserev with the real daemon, and its records as an admin sees them. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/userev.h"
#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

static struct userev *userev;
static struct userev_event event, other;

static void close_library(void)
{
	userev_close(userev);
	userev = NULL;
}

/* A test with a daemon, to which `userev` is connected. */
#define LIBRARY_TEST(name, ...)                                                                                        \
	static void name##_body(struct fixture *fixture);                                                              \
	DAEMON_TEST(name, __VA_ARGS__)                                                                                 \
	{                                                                                                              \
		userev = userev_open(fixture->socket, 0);                                                              \
		ck_assert_int_eq(userev_connected(userev), 0);                                                         \
		name##_body(fixture);                                                                                  \
		close_library();                                                                                       \
	}                                                                                                              \
	static void name##_body(struct fixture *fixture _unused_)

/* The tracer's data of an event. */
static struct seen look_at(struct fixture *fixture, const char *name)
{
	struct seen seen;

	see(fixture, name, &seen);
	return seen;
}

static void expect_last_record(struct fixture *fixture, const char *name, const char *expected)
{
	struct seen seen = look_at(fixture, name);

	expect_record_text(&seen, expected);
}

static void register_event(struct userev_event *new, const char *description)
{
	int r = userev_register(userev, new, description, 0);

	ck_assert_msg(r == 0, "%s: %s (%s)", description, strerror(-r), userev_refusal());
}

LIBRARY_TEST(event_reaches_the_admins_screen)
{
	struct seen seen;
	struct {
		uint32_t status;
		uint32_t where;
		char path[6];
	} payload = { 200, 6 << 16, "/cart" };

	ck_assert(!userev_enabled(&event));
	register_event(&event, "request u32 status; __rel_loc char[] path");
	ck_assert_str_eq(userev_event_name(&event), "request");
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 0);

	ck_assert_uint_eq(trace(fixture, "request", true), 1);
	ck_assert(userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 14);
	seen = look_at(fixture, "request");
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, getpid());
	expect_last_record(fixture, "request", "status=200 path=\"/cart\"");
	if (keeps_records_itself(fixture)) {
		ck_assert_uint_eq(seen.uid, getuid());
		ck_assert_uint_gt(seen.time, UINT64_C(1600000000000000000));
		ck_assert_str_ne(seen.comm, "unknown");
	}

	ck_assert_uint_eq(trace(fixture, "request", false), 1);
	ck_assert(!userev_enabled(&event));
	ck_assert_int_eq(userev_write(&event, &payload, 14), 0);
	ck_assert_uint_eq(look_at(fixture, "request").records, 1);
	close_library();
	ck_assert(!userev_enabled(&event));
}

LIBRARY_TEST(records_of_all_sizes_arrive)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	static struct userev_event none, three;
	uint32_t numbers[3] = { 1, 2, 3 };
	struct iovec pieces[] = { { &numbers[0], 4 }, { &numbers[1], 4 }, { &numbers[2], 4 } };

	register_event(&none, "sized_none");
	register_event(&three, "sized_three u32 a; u32 b; u32 c");
	register_event(&event, "sized_big");
	ck_assert_uint_eq(trace(fixture, "sized_*", true), 3);
	ck_assert_int_eq(userev_write(&none, NULL, 0), 0);
	ck_assert_int_eq(userev_writev(&none, NULL, 0), 0);
	ck_assert_uint_eq(look_at(fixture, "sized_none").records, 2);
	ck_assert_int_eq(userev_writev(&three, pieces, 3), 12);
	expect_last_record(fixture, "sized_three", "a=1 b=2 c=3");
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX), WIRE_PAYLOAD_MAX);
	ck_assert_int_eq(userev_write(&event, payload, WIRE_PAYLOAD_MAX + 1), -E2BIG);
	ck_assert_uint_eq(look_at(fixture, "sized_big").records, 1);
	ck_assert_uint_eq(userev_lost(userev).too_big, 1);
	userev_release(userev, &event);
	ck_assert_uint_eq(tenant_number(fixture, "too_big"), 1);
	trace(fixture, "sized_*", false);
}

LIBRARY_TEST(refusal_explains_itself_and_charges_nothing, .policy = "[/**]\nAllowMultiFormat=no\n",
	     .options = { "--max-events=1" })
{
	ck_assert_int_eq(userev_register(userev, &event, "bad u32 a; long b", 0), -EINVAL);
	ck_assert_str_eq(userev_refusal(), "field 2: 'long' has no fixed size; use s64 or u64");
	register_event(&event, "first u32 a");
	ck_assert_int_eq(userev_register(userev, &other, "first u64 a", 0), -EEXIST);
	ck_assert_int_eq(userev_register(userev, &other, "second", 0), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "1 of 1 events"));
	ck_assert_int_eq(userev_register(userev, &other, "second", USEREV_PERSIST),
			 refusal_to_errno(refusal_to_persist(fixture)));
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	userev_release(userev, &event);
	ck_assert(eventually(status_number(fixture, "charges") == 0));
	register_event(&other, "second");
}

LIBRARY_TEST(a_thousand_events_are_registered_in_one_call)
{
	enum { N = 1000 };
	static struct userev_event events[N];
	static struct userev_registration list[N];
	static char descriptions[N][32];

	for (int i = 0; i < N; i++) {
		snprintf(descriptions[i], sizeof(descriptions[i]), "many_%d u32 n", i);
		list[i] = (struct userev_registration){ .event = &events[i], .description = descriptions[i] };
	}
	ck_assert_int_eq(userev_register_all(userev, list, N), 0);
	/* On a slow machine a call times out; the next call sends the rest. */
	ck_assert(eventually(userev_connected(userev) == 0));
	ck_assert_uint_eq(status_number(fixture, "leases"), N);
	ck_assert_uint_eq(trace(fixture, "many_777", true), 1);
	for (int i = 0; i < N; i++) {
		ck_assert_msg(userev_enabled(&events[i]) == (i == 777), "event %d", i);
		ck_assert_int_eq(userev_write(&events[i], &i, sizeof(i)), i == 777 ? 4 : 0);
	}
	ck_assert_uint_eq(look_at(fixture, "many_777").records, 1);
	expect_last_record(fixture, "many_777", "n=777");
}

TEST(program_reconnects_after_daemon_is_killed)
{
	struct fixture dead, next;
	uint32_t n = 1;
	ssize_t written;

	fixture_start(&dead, NULL);
	userev = userev_open(dead.socket, 0);
	register_event(&event, "survivor u32 n");
	trace(&dead, "survivor", true);
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	fixture_end(&dead, dead.pid, SIGKILL);
	written = userev_write(&event, &n, sizeof(n));
	/* The kernel still takes records, until the keeper has switched off the remaining events. */
	ck_assert(written == 0 || (written == 4 && !keeps_records_itself(&dead)));
	register_event(&other, "more u32 n");

	fixture_start(&next, NULL);
	ck_assert_int_eq(rename(next.socket, dead.socket), 0);
	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(rename(dead.socket, next.socket), 0);
	ck_assert_uint_eq(status_number(&next, "leases"), 2);
	ck_assert_uint_eq(trace(&next, "survivor", true), 1);
	ck_assert(userev_enabled(&event) && !userev_enabled(&other));
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	ck_assert_uint_eq(look_at(&next, "survivor").records, 1);
	close_library();
	fixture_stop(&next);
	fixture_abandon(&dead);
}

DAEMON_TEST(set_user_id_program_is_accepted)
{
	pid_t child = fork();

	if (child == 0) {
		/* Real and effective user differ. Without root they stay the same. */
		if (geteuid() == 0 && setresuid(65534, 0, 0) < 0)
			_exit(2);
		userev = userev_open(fixture->socket, 0);
		_exit(userev_connected(userev) == 0 && userev_register(userev, &event, "privileged", 0) == 0 ? 0 : 1);
	}
	await_success(child);
}

LIBRARY_TEST(parent_and_child_keep_events_after_fork)
{
	uint32_t n = 1;
	pid_t child;
	int go[2];

	register_event(&event, "forked u32 n");
	trace(fixture, "forked", true);
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (child == 0) {
		bool good = userev_write(&event, &n, sizeof(n)) == 4;

		good &= userev_register(userev, &other, "childs_own u32 n", 0) == 0;
		good &= userev_enabled(&event) && userev_write(&event, &n, sizeof(n)) == 4;
		/* The parent writes a byte once it has checked the number of holders. */
		good &= read(go[0], &n, 1) == 1;
		close_library();
		_exit(good ? 0 : 1);
	}
	ck_assert(eventually(event_number(fixture, "childs_own", "holders_total") == 1));
	ck_assert_uint_eq(event_number(fixture, "forked", "holders_total"), 2);
	ck_assert_int_eq(userev_write(&event, &n, sizeof(n)), 4);
	ck_assert(eventually(look_at(fixture, "forked").records == 3));
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	await_success(child);
	/* The child had a connection of its own: the parent's is still open. */
	ck_assert_int_eq(userev_connected(userev), 0);
	register_event(&other, "parents_own u32 n");
	close(go[0]);
	close(go[1]);
}

enum { THREADS = 4, ROUNDS = 300, FEWER_ROUNDS = 30 };

struct worker {
	unsigned number;
	uint32_t rounds;
	uint64_t written;
};

/* NULL, or a complaint. */
static void *work(void *data)
{
	struct worker *worker = data;
	struct userev_event own = { 0 };
	char description[64];

	snprintf(description, sizeof(description), "worker_%u u32 n", worker->number);
	for (uint32_t i = 1; i <= worker->rounds; i++) {
		uint32_t n = 1;

		if (userev_register(userev, &own, description, 0) != 0)
			return (void *)(uintptr_t) "refused";
		if (userev_write(&event, &n, sizeof(n)) == sizeof(n))
			worker->written++;
		userev_release(userev, &own);
	}
	return NULL;
}

LIBRARY_TEST(threads_register_write_and_release_at_once)
{
	const uint32_t rounds = is_emulated() ? FEWER_ROUNDS : ROUNDS;
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	uint64_t written = 0;
	struct seen seen;

	register_event(&event, "common u32 n");
	trace(fixture, "common", true);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .number = i, .rounds = rounds };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *complaint;

		ck_assert_int_eq(pthread_join(threads[i], &complaint), 0);
		ck_assert_msg(!complaint, "%s", (char *)complaint);
		written += workers[i].written;
	}
	seen = look_at(fixture, "common");
	ck_assert_uint_eq(seen.records, written);
	ck_assert_uint_eq(seen.sum, written);
	ck_assert_uint_eq(written + userev_lost(userev).queue_full, THREADS * rounds);
	trace(fixture, "common", false);
}

static bool differs(struct fixture *fixture, const char *name, char *ret, size_t size)
{
	struct tally now;

	tally_take(fixture, &now);
	tally_compare(&fixture->before, &now, ret, size);
	return strstr(ret, name) != NULL;
}

static void expect_difference(struct fixture *fixture, const char *name)
{
	char difference[256];

	ck_assert_msg(eventually(differs(fixture, name, difference, sizeof(difference))),
		      "the fixture overlooks %s: '%s'", name, difference);
}

DAEMON_TEST(fixture_detects_leftovers)
{
	static const char *const of_connection[] = { "fds", "connections", "tenants" };
	static const char *const of_event[] = { "events", "leases", "streams", "charges" };
	char difference[256];

	ck_assert_msg(tally_settles(fixture, &fixture->before, difference, sizeof(difference)), "%s", difference);
	userev = userev_open(fixture->socket, 0);
	for (size_t i = 0; i < ARRAY_SIZE(of_connection); i++)
		expect_difference(fixture, of_connection[i]);
	register_event(&event, "left u32 n");
	for (size_t i = 0; i < ARRAY_SIZE(of_event); i++)
		expect_difference(fixture, of_event[i]);
	if (fixture->keeper)
		expect_difference(fixture, "keeper_fds");
	close_library();
}
