/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant asks for as much as it can as fast as it can, dies while it asks, and floods its own records. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/integration/batch.h"
#include "tests/integration/scene.h"

static const char *const all_it_wants[] = { "--max-events=40000", "--capacity=110000", NULL };

enum { NAME_SIZE = 32 };

/* So many events in one packet; how many were granted, and their bits. */
static unsigned take_events(int socket, char (*names)[NAME_SIZE], unsigned n, uint32_t *ret_bits)
{
	static struct batch batch;
	const char *descriptions[WIRE_BATCH_MAX];
	unsigned granted = 0;

	for (unsigned i = 0; i < n; i++)
		descriptions[i] = names[i];
	batch_register(socket, descriptions, n, &batch, NULL);
	for (unsigned i = 0; i < n; i++)
		if (batch.answer[i].refusal == 0)
			ret_bits[granted++] = batch.answer[i].bit;
	return granted;
}

static void name_events(char (*names)[NAME_SIZE], unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		snprintf(names[i], NAME_SIZE, "attackers_%u", from + i);
}

TEST(registering_without_a_pause_leaves_others_served)
{
	uint64_t end, seconds = repetitions(1, 60), done = 0;
	char names[WIRE_BATCH_MAX][NAME_SIZE];
	uint32_t bits[WIRE_BATCH_MAX];
	struct scene scene;
	int socket;

	scene_begin(&scene, "", NULL);
	socket = raw_hello(scene.fixture.socket, 0, NULL, NULL);
	name_events(names, 0, ARRAY_SIZE(names));
	end = clock_us() + seconds * 1000000;
	while (clock_us() < end) {
		unsigned granted = take_events(socket, names, ARRAY_SIZE(names), bits);

		ck_assert_uint_eq(raw_release(socket, bits, granted), granted);
		done += 2 * granted;
	}
	close(socket);
	scene_end(&scene, 8192, "%" PRIu64 " registrations and releases a second, for %" PRIu64 " s", done / seconds,
		  seconds);
}

TEST(tenant_taking_all_events_leaves_others_theirs)
{
	enum { MORE = 10 };
	char names[WIRE_BATCH_MAX][NAME_SIZE];
	uint32_t bits[WIRE_BATCH_MAX];
	unsigned granted = 0, packets;
	struct scene scene;
	int socket;

	scene_begin(&scene, "", all_it_wants);
	/* The kernel would take minutes, and has another test for it. */
	packets = keeps_records_itself(&scene.fixture) ? WIRE_PAGE_BITS / WIRE_BATCH_MAX : repetitions(4, 4);
	socket = raw_hello(scene.fixture.socket, 0, NULL, NULL);
	for (unsigned i = 0; i < packets + MORE; i++) {
		name_events(names, MIN(i, packets) * WIRE_BATCH_MAX, ARRAY_SIZE(names));
		granted += take_events(socket, names, ARRAY_SIZE(names), bits);
	}
	if (keeps_records_itself(&scene.fixture))
		ck_assert_uint_eq(granted, WIRE_PAGE_BITS - 1);
	close(socket);
	scene_end(&scene, 65536, "%u events registered, of %u asked for", granted, (packets + MORE) * WIRE_BATCH_MAX);
}

/* "Ab" and "BA" are the same to a hash that multiplies by 33, and so are all rows of them. */
static void name_collisions(char (*names)[NAME_SIZE], unsigned from, unsigned n)
{
	enum { BITS = 12 };

	for (unsigned i = 0; i < n; i++) {
		for (unsigned bit = 0; bit < BITS; bit++)
			memcpy(names[i] + 2 * bit, (from + i) >> bit & 1 ? "Ab" : "BA", 2);
		names[i][2 * BITS] = '\0';
	}
}

/* Microseconds for each. */
static double time_names(const struct scene *scene, void (*name)(char (*names)[NAME_SIZE], unsigned from, unsigned n),
			 unsigned n)
{
	int socket = raw_hello(scene->fixture.socket, 0, NULL, NULL);
	char names[WIRE_BATCH_MAX][NAME_SIZE];
	uint32_t bits[WIRE_BATCH_MAX];
	uint64_t begun = clock_us();

	for (unsigned i = 0; i < n; i += WIRE_BATCH_MAX) {
		name(names, i, WIRE_BATCH_MAX);
		ck_assert_uint_eq(take_events(socket, names, WIRE_BATCH_MAX, bits), WIRE_BATCH_MAX);
	}
	begun = clock_us() - begun;
	close(socket);
	return (double)begun / n;
}

/* Of a few times: what is more than that is the machine's. */
static void keep_least(double *least, double time)
{
	*least = MIN(*least, time);
}

TEST(colliding_names_cost_no_more_than_others)
{
	double ordinary = 1e9, chosen = 1e9;
	struct scene scene;
	unsigned n;

	scene_begin(&scene, "", all_it_wants);
	n = keeps_records_itself(&scene.fixture) ? 4096 : WIRE_BATCH_MAX;
	for (unsigned i = 0; i < repetitions(3, 20); i++) {
		keep_least(&ordinary, time_names(&scene, name_events, n));
		keep_least(&chosen, time_names(&scene, name_collisions, n));
	}
	scene_end(&scene, 16384, "%u names that collide, in a hash with a secret key: %.1f µs each, others %.1f µs", n,
		  chosen, ordinary);
}

/* Another process, of which nothing is expected but that it begins. */
static _Noreturn void ask_and_wait_for_death(const char *path)
{
	enum { CONNECTIONS = 100 };
	int page;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		char names[8][NAME_SIZE];
		const char *descriptions[ARRAY_SIZE(names)];
		int socket = actor_hello(path, &page);

		name_events(names, i * 8, ARRAY_SIZE(names));
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			descriptions[k] = names[k];
		batch_put(descriptions, ARRAY_SIZE(names));
		raw_send(socket);
	}
	for (;;)
		pause();
}

/* After a time that is another one each time, so that it is in the midst of something else. */
static void kill_one(const struct scene *scene, unsigned number)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		ask_and_wait_for_death(scene->fixture.socket);
	usleep(number * 7919 % 20000);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(client_killed_amid_a_request_leaves_nothing)
{
	unsigned n = repetitions(50, 1000);
	struct scene scene;

	scene_begin(&scene, "", NULL);
	for (unsigned i = 0; i < n; i++)
		kill_one(&scene, i);
	scene_end(&scene, 16384, "%u processes killed in the middle of up to 100 requests each", n);
}

struct counted {
	uint64_t kept;
	uint64_t missed;
};

static void count_row(struct counted *counted, struct cursor row)
{
	struct row_field field;

	if (row_find(row, "missed", &field))
		counted->missed += field.number;
	else
		counted->kept += row_find(row, "event", &field);
}

/* An admin who tails it from now on, and reads nothing yet. */
static int begin_to_tail(const struct scene *scene, const char *event)
{
	int control = raw_connect(scene->fixture.control);
	struct packet *to = raw_packet(KIND_TAIL);
	size_t mark = encode_strings(to, 0);

	encode_string(to, 0, event, strlen(event));
	encode_count(to, mark, 1);
	ck_assert_int_eq(raw_send(control), 0);
	return control;
}

/* Until it has heard of so many. */
static struct counted count_records(int control, uint64_t written)
{
	struct counted counted = { 0 };
	struct cursor rows, row;
	struct raw_reply reply;
	uint16_t n;

	while (counted.kept + counted.missed < written) {
		raw_receive(control, &reply);
		ck_assert_msg(reply.size > 0, "of %" PRIu64 " records it has seen %" PRIu64 " and missed %" PRIu64,
			      written, counted.kept, counted.missed);
		ck_assert_int_eq(decode_rows(reply.message.body, &n, &rows), 0);
		while (rows_next(&rows, &row))
			count_row(&counted, row);
	}
	return counted;
}

static uint64_t flood(struct scene *scene, int stream, uint64_t n, uint64_t *ret_refused)
{
	const uint32_t record[2] = { 0 }; /* index, a */
	int control = begin_to_tail(scene, "flood");
	uint64_t written = 0, refused = 0;
	struct counted counted;

	ck_assert_uint_eq(trace(&scene->fixture, "flood", true), 1);
	while (written < n)
		*(write(stream, record, sizeof(record)) == sizeof(record) ? &written : &refused) += 1;
	sync_records(&scene->fixture);
	ck_assert_uint_eq(event_number(&scene->fixture, "flood", "records"), written);
	counted = count_records(control, written);
	ck_assert_uint_eq(counted.kept + counted.missed, written);
	ck_assert_uint_gt(counted.missed, 0);
	close(control);
	ck_assert_uint_eq(trace(&scene->fixture, "flood", false), 1);
	*ret_refused = refused;
	return counted.missed;
}

TEST(records_that_flood_the_ring_are_seen_or_counted)
{
	static const char *const small_ring[] = { "--backend=embedded", "--ring-size=64K", NULL };
	uint64_t n = repetitions(20000, 3000000), missed, refused;
	struct scene scene;
	int socket, stream = -1;

	scene_begin(&scene, "", small_ring);
	socket = raw_hello(scene.fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "flood u32 a", NULL, &stream), 0);
	missed = flood(&scene, stream, n, &refused);
	close(stream);
	close(socket);
	scene_end(&scene, 4096,
		  "%" PRIu64 " records into a ring of 64 KiB: its reader was told of %" PRIu64
		  " that it missed, their writer of %" PRIu64 " for which there was no room",
		  n, missed, refused);
}
