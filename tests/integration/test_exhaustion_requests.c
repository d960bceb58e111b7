/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant sends as many requests as it can, ends in the middle of them, and writes more records than anyone reads. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "tests/integration/scene.h"

#define ALL_IT_WANTS .options = { "--max-events=40000", "--capacity=110000" }

SCENE_TEST(registering_without_a_pause_leaves_others_served)
{
	uint64_t seconds = repetitions(1, 60), end = clock_us() + seconds * 1000000, done = 0;
	const char *const *names = numbered("attackers_%u", 0, WIRE_BATCH_MAX);
	uint32_t bits[WIRE_BATCH_MAX];
	_cleanup_(fd_closep) int socket = fixture_client(&scene->fixture);

	while (clock_us() < end) {
		take_batch(socket, names, WIRE_BATCH_MAX, bits, NULL);
		ck_assert_uint_eq(raw_release(socket, bits, WIRE_BATCH_MAX), WIRE_BATCH_MAX);
		done += 2ULL * WIRE_BATCH_MAX;
	}
	socket = fd_close(socket);
	scene_end(scene, 8192, "%" PRIu64 " registrations and releases a second, for %" PRIu64 " s", done / seconds,
		  seconds);
}

SCENE_TEST(tenant_taking_all_events_leaves_others_theirs, ALL_IT_WANTS)
{
	enum { MORE = 10 };
	static struct batch batch;
	/* The kernel would take minutes, and has a test of its own. */
	unsigned packets = keeps_records_itself(&scene->fixture) ? WIRE_PAGE_BITS / WIRE_BATCH_MAX : repetitions(4, 4);
	unsigned granted = 0;
	int socket = fixture_client(&scene->fixture);

	for (unsigned i = 0; i < packets + MORE; i++) {
		batch_register(socket, numbered("attackers_%u", MIN(i, packets) * WIRE_BATCH_MAX, WIRE_BATCH_MAX),
			       WIRE_BATCH_MAX, &batch, NULL);
		for (unsigned k = 0; k < batch.count; k++)
			granted += batch.answer[k].refusal == 0;
	}
	if (keeps_records_itself(&scene->fixture))
		ck_assert_uint_eq(granted, WIRE_PAGE_BITS - 1);
	close(socket);
	scene_end(scene, 65536, "%u events registered, of %u asked for", granted, (packets + MORE) * WIRE_BATCH_MAX);
}

/* "Ab" and "BA" are the same to a hash that multiplies by 33, and so are all texts made of them. */
static const char *const *colliding(const char *unused _unused_, unsigned from, unsigned n)
{
	enum { BITS = 12 };
	static char names[WIRE_BATCH_MAX][2 * BITS + 1];
	static const char *all[WIRE_BATCH_MAX];

	for (unsigned i = 0; i < n; i++) {
		for (unsigned bit = 0; bit < BITS; bit++)
			memcpy(names[i] + 2 * bit, (from + i) >> bit & 1 ? "Ab" : "BA", 2);
		all[i] = names[i];
	}
	return all;
}

/* Microseconds for each of n names. */
static double time_names(const struct scene *scene, const char *const *(*name)(const char *, unsigned from, unsigned n),
			 unsigned n)
{
	_cleanup_(fd_closep) int socket = fixture_client(&scene->fixture);
	uint64_t begun = clock_us();

	for (unsigned i = 0; i < n; i += WIRE_BATCH_MAX)
		take_batch(socket, name("attackers_%u", i, WIRE_BATCH_MAX), WIRE_BATCH_MAX, NULL, NULL);
	return (double)(clock_us() - begun) / n;
}

SCENE_TEST(colliding_names_cost_no_more_than_others, ALL_IT_WANTS)
{
	unsigned n = keeps_records_itself(&scene->fixture) ? 4096 : WIRE_BATCH_MAX;
	double ordinary = 1e9, chosen = 1e9;

	/* The shortest of a few times: the rest is the machine's. */
	for (unsigned i = 0; i < repetitions(3, 20); i++) {
		ordinary = MIN(ordinary, time_names(scene, numbered, n));
		chosen = MIN(chosen, time_names(scene, colliding, n));
	}
	scene_end(scene, 16384, "%u names that collide, in a hash with a secret key: %.1f µs each, others %.1f µs", n,
		  chosen, ordinary);
}

static _Noreturn void ask_until_killed(const char *path)
{
	enum { CONNECTIONS = 100, EVENTS = 8 };

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		int socket = raw_hello(path, 0, NULL, NULL);

		batch_put(numbered("attackers_%u", i * EVENTS, EVENTS), EVENTS);
		raw_send(socket);
	}
	for (;;)
		pause();
}

SCENE_TEST(client_killed_amid_a_request_leaves_nothing)
{
	unsigned n = repetitions(50, 1000);

	for (unsigned i = 0; i < n; i++) {
		pid_t pid = start_process();

		if (pid == 0)
			ask_until_killed(scene->fixture.socket);
		/* Another time for each process, so that each is killed in the midst of another request. */
		usleep(i * 7919 % 20000);
		kill_process(pid);
	}
	scene_end(scene, 16384, "%u processes killed in the middle of up to 100 requests each", n);
}

/* An admin tails the event from now on, and reads nothing yet. */
static int begin_to_tail(const struct scene *scene, const char *event)
{
	int control = raw_connect(scene->fixture.control);

	raw_strings(KIND_TAIL, 0, &event, 1, 0);
	ck_assert_int_eq(raw_send(control), 0);
	return control;
}

/* Reads until all that were written are either shown or counted as missed; returns the number of the latter. */
static uint64_t count_missed(int control, uint64_t written)
{
	uint64_t kept = 0, missed = 0;
	struct row_field field;
	struct cursor rows, row;
	struct raw_reply reply;
	uint16_t n;

	while (kept + missed < written) {
		raw_receive(control, &reply);
		ck_assert_msg(reply.size > 0, "of %" PRIu64 " records %" PRIu64 " were seen and %" PRIu64 " missed",
			      written, kept, missed);
		ck_assert_int_eq(decode_rows(reply.message.body, &n, &rows), 0);
		while (rows_next(&rows, &row)) {
			if (row_find(row, "missed", &field))
				missed += field.number;
			else
				kept += row_find(row, "event", &field);
		}
	}
	ck_assert_uint_eq(kept + missed, written);
	return missed;
}

SCENE_TEST(records_that_flood_the_ring_are_seen_or_counted, .options = { "--backend=embedded", "--ring-size=64K" })
{
	uint64_t n = repetitions(20000, 3000000), missed, written = 0, refused = 0;
	const uint32_t record[2] = { 0 }; /* index, a */
	int stream = -1, socket = fixture_client(&scene->fixture), control;

	ck_assert_uint_eq(raw_register(socket, "flood u32 a", NULL, &stream), 0);
	control = begin_to_tail(scene, "flood");
	ck_assert_uint_eq(trace(&scene->fixture, "flood", true), 1);
	while (written < n)
		*(write(stream, record, sizeof(record)) == sizeof(record) ? &written : &refused) += 1;
	sync_records(&scene->fixture);
	ck_assert_uint_eq(event_number(&scene->fixture, "flood", "records"), written);
	missed = count_missed(control, written);
	ck_assert_uint_gt(missed, 0);
	ck_assert_uint_eq(trace(&scene->fixture, "flood", false), 1);
	close(control);
	close(stream);
	close(socket);
	scene_end(scene, 4096,
		  "%" PRIu64 " records into a ring of 64 KiB: its reader was told of %" PRIu64
		  " that it missed, their writer of %" PRIu64 " for which there was no room",
		  n, missed, refused);
}
