/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One tenant takes as many connections and fds as it can get, sends nothing, or little, or reads nothing; its neighbour works on. */

#include <poll.h>

#include "tests/integration/scene.h"

/* For attacks with many connections; the others have the default maximum. */
#define NO_MAXIMUM .policy = "[Daemon]\nDefaultMaxConnections=infinity\n"
#define IMPATIENT  .options = { "--client-timeout=1" }

static bool has_answer(int socket)
{
	struct pollfd answer = { .fd = socket, .events = POLLIN };

	return poll(&answer, 1, 0) > 0;
}

static bool accepts_no_more(const struct scene *scene)
{
	uint64_t connections = status_number(&scene->fixture, "connections");

	usleep(20000);
	return status_number(&scene->fixture, "connections") == connections;
}

/* On each connection that was accepted; how many. */
static unsigned ask_for_streams(const int *sockets, unsigned n)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!has_answer(sockets[i]))
			continue;
		send_register(sockets[i], "of_all u32 a");
		asked++;
	}
	return asked;
}

static void take_all_fds(struct scene *scene, rlim_t number)
{
	unsigned rounds = repetitions(5, 1000), n = (unsigned)number + 16, inside = 0;
	int sockets[1024 + 16];

	if (most_connections(n) < n)
		n = most_connections(n);
	limit_fds_of(scene->fixture.pid, number);
	for (unsigned round = 0; round < rounds; round++) {
		connect_many(scene, sockets, n, true);
		ck_assert(eventually(accepts_no_more(scene)));
		inside = ask_for_streams(sockets, n);
		ck_assert_uint_lt(inside, number);
		if (round == 0)
			scene_go_on(scene);
		close_many(sockets, n);
		close(fixture_client(&scene->fixture));
	}
	scene_end(scene, 4096, "all fds of a daemon that may have %u, %u times: %u connections, each with a stream",
		  (unsigned)number, rounds, inside);
}

/* Of the test's user, so that the test may change its limits without a capability. */
#define STAYS_ROOT .options = { "--user=root", "--guard=off" }

SCENE_TEST(tenant_taking_64_fds_leaves_others_theirs, NO_MAXIMUM, STAYS_ROOT)
{
	take_all_fds(scene, 64);
}

SCENE_TEST(tenant_taking_256_fds_leaves_others_theirs, NO_MAXIMUM, STAYS_ROOT)
{
	take_all_fds(scene, 256);
}

SCENE_TEST(tenant_taking_1024_fds_leaves_others_theirs, NO_MAXIMUM, STAYS_ROOT)
{
	take_all_fds(scene, 1024);
}

SCENE_TEST(connection_beyond_the_maximum_is_always_refused)
{
	enum { MAXIMUM = 1024 };
	static int sockets[MAXIMUM];
	unsigned more = repetitions(500, 20000);

	most_connections(MAXIMUM);
	connect_many(scene, sockets, MAXIMUM, true);
	for (unsigned i = 0; i < more; i++) {
		_cleanup_(fd_closep) int socket = raw_connect(scene->fixture.socket);

		expect_cut(socket, REFUSAL_TOO_MANY_CONNECTIONS);
	}
	await_status(&scene->fixture, "connections=%u", MAXIMUM + 1);
	close_many(sockets, MAXIMUM);
	scene_end(scene, 4096, "all of a tenant's %u connections, and then %u more", MAXIMUM, more);
}

SCENE_TEST(thousands_of_silent_clients_are_disconnected, NO_MAXIMUM, IMPATIENT)
{
	static int sockets[10000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets)));

	connect_many(scene, sockets, n, false);
	for (unsigned i = 0; i < n; i++)
		expect_cut(sockets[i], REFUSAL_TOO_SLOW);
	close_many(sockets, n);
	scene_end(scene, 2048 + n, "%u connections that say nothing", n);
}

/* Reads the answers to the last request, and sends the same request again. */
static void drip(const int *sockets, unsigned n)
{
	uint8_t answer[256];

	for (unsigned i = 0; i < n; i++) {
		while (recv(sockets[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
			;
		raw_request(sockets[i], KIND_QUERY);
	}
}

SCENE_TEST(thousands_of_slow_requests_are_answered, NO_MAXIMUM)
{
	static int sockets[5000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets))), seconds = repetitions(2, 30);

	connect_many(scene, sockets, n, true);
	for (unsigned i = 0; i < seconds; i++) {
		drip(sockets, n);
		sleep(1);
	}
	await_status(&scene->fixture, "connections=%u", n + 1);
	close_many(sockets, n);
	scene_end(scene, 2048 + n, "%u connections that ask a little every second, for %u s", n, seconds);
}

SCENE_TEST(thousands_of_one_byte_packets_are_refused, NO_MAXIMUM)
{
	static int sockets[5000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets))), seconds = repetitions(2, 30);

	for (unsigned second = 0; second < seconds; second++) {
		connect_many(scene, sockets, n, false);
		for (unsigned i = 0; i < n; i++)
			ck_assert_int_eq(transport_send(sockets[i], "x", 1, NULL, 0, 0), 0);
		for (unsigned i = 0; i < n; i++)
			expect_cut(sockets[i], REFUSAL_BAD_PACKET);
		close_many(sockets, n);
		sleep(1);
	}
	scene_end(scene, 2048 + n, "%u connections, one byte on each every second, for %u s", n, seconds);
}

/* Until the daemon has stopped reading, and the socket's queue is full. */
static unsigned ask_until_the_queue_is_full(int socket, const char *const *descriptions, size_t n)
{
	const struct packet *packet;
	unsigned asked = 0;

	batch_put(descriptions, n);
	packet = raw_finish();
	while (transport_send(socket, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0)
		asked++;
	return asked;
}

/* Connects n times and asks for the same event so often in each packet. */
static unsigned ask_on_many(const struct scene *scene, int *sockets, unsigned n, const char *description, size_t times)
{
	const char *same[WIRE_BATCH_MAX];
	unsigned asked = 0;

	for (size_t i = 0; i < times; i++)
		same[i] = description;
	for (unsigned i = 0; i < n; i++) {
		connect_many(scene, &sockets[i], 1, true);
		asked += ask_until_the_queue_is_full(sockets[i], same, times);
	}
	return asked;
}

/* An answer waits for each client, which has a second to read it. */
SCENE_TEST(thousands_of_unread_clients_are_disconnected, NO_MAXIMUM, IMPATIENT)
{
	/* So many pages in flight are a third of the fds that processes have here. */
	static int sockets[5000];
	unsigned n = most_connections(repetitions(100, ARRAY_SIZE(sockets)));
	unsigned asked = ask_on_many(scene, sockets, n, "long x", 32);

	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(eventually(is_disconnected(sockets[i])), "connection %u of %u is not disconnected", i, n);
	/* Their pages are still in flight. */
	expect_status(&scene->fixture, "connections=%u", n + 1);
	close_many(sockets, n);
	scene_end(scene, 12288 + 3 * n, "%u connections that never read, with %u requests", n, asked);
}

/* With answers of the largest size, one of which may wait for each connection. */
SCENE_TEST(unread_answers_take_little_memory)
{
	enum { ANSWER = 124 /* kB */ };
	static int sockets[1000];
	unsigned n = most_connections(repetitions(200, ARRAY_SIZE(sockets)));
	unsigned asked = ask_on_many(scene, sockets, n, "!no_name", WIRE_BATCH_MAX);

	sleep(repetitions(1, 5));
	scene_go_on(scene);
	close_many(sockets, n);
	scene_end(scene, 12288, "%u MB of unread answers asked for on %u connections", asked * ANSWER / 1000, n);
}
