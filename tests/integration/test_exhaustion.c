/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One tenant takes all connections and fds that it can get, says nothing, or little, or reads nothing; its neighbour works on.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/integration/batch.h"
#include "tests/integration/scene.h"

/* What many connections are tried with; else a tenant has its maximum. */
static const char no_maximum[] = "[Daemon]\nDefaultMaxConnections=infinity\n";
static const char *const impatient[] = { "--client-timeout=1", NULL };
/* So that its limits may be changed by somebody without CAP_SYS_RESOURCE. */
static const char *const stays_root[] = { "--user=root", "--guard=off", NULL };

static bool has_answer(int socket)
{
	struct pollfd answer = { .fd = socket, .events = POLLIN };

	return poll(&answer, 1, 0) > 0;
}

static bool takes_nobody_more(const struct scene *scene)
{
	uint64_t connections = status_number(&scene->fixture, "connections");

	usleep(20000);
	return status_number(&scene->fixture, "connections") == connections;
}

/* A stream each, too, as far as they get one. */
static unsigned ask_for_streams(const int *sockets, unsigned n)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!has_answer(sockets[i]))
			continue;
		batch_put((const char *const[]){ "of_all u32 a" }, 1);
		ck_assert_int_eq(raw_send(sockets[i]), 0);
		asked++;
	}
	return asked;
}

static void take_all_fds(rlim_t number)
{
	const struct rlimit limit = { .rlim_cur = number, .rlim_max = number };
	unsigned rounds = repetitions(5, 1000), n = (unsigned)number + 16, inside = 0;
	struct scene scene;
	int sockets[1024 + 16];

	if (most_connections(n) < n) {
		printf("not possible here, where a process may have no more: %u connections\n", n);
		return;
	}
	scene_begin(&scene, no_maximum, stays_root);
	ck_assert_int_eq(prlimit(scene.fixture.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	for (unsigned round = 0; round < rounds; round++) {
		connect_many(&scene, sockets, n, true);
		ck_assert(eventually(takes_nobody_more(&scene)));
		inside = ask_for_streams(sockets, n);
		ck_assert_uint_lt(inside, number);
		if (round == 0)
			scene_go_on(&scene);
		close_many(sockets, n);
		/* Who comes then is served. */
		close(raw_hello(scene.fixture.socket, 0, NULL, NULL));
	}
	scene_end(&scene, 4096, "all fds of a daemon that may have %u, %u times: %u connections, each with a stream",
		  (unsigned)number, rounds, inside);
}

TEST(who_takes_all_of_64_fds_leaves_the_neighbour_what_it_has)
{
	take_all_fds(64);
}
END_TEST

TEST(who_takes_all_of_256_fds_leaves_the_neighbour_what_it_has)
{
	take_all_fds(256);
}
END_TEST

TEST(who_takes_all_of_1024_fds_leaves_the_neighbour_what_it_has)
{
	take_all_fds(1024);
}
END_TEST

TEST(the_connection_after_a_tenants_last_is_turned_away_however_often_it_comes)
{
	enum { MAXIMUM = 1024 };
	static int sockets[MAXIMUM];
	unsigned more = repetitions(500, 20000);
	struct scene scene;

	most_connections(MAXIMUM);
	scene_begin(&scene, "", NULL);
	connect_many(&scene, sockets, MAXIMUM, true);
	for (unsigned i = 0; i < more; i++) {
		int socket = raw_connect(scene.fixture.socket);

		expect_cut(socket, REFUSAL_TOO_MANY_CONNECTIONS);
		close(socket);
	}
	ck_assert(eventually(status_number(&scene.fixture, "connections") == MAXIMUM + 1));
	close_many(sockets, MAXIMUM);
	scene_end(&scene, 4096, "all of a tenant's %u connections, and then %u more", MAXIMUM, more);
}
END_TEST

TEST(thousands_who_say_nothing_are_told_and_cut_off)
{
	static int sockets[10000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets)));
	struct scene scene;

	scene_begin(&scene, no_maximum, impatient);
	connect_many(&scene, sockets, n, false);
	for (unsigned i = 0; i < n; i++)
		expect_cut(sockets[i], REFUSAL_TOO_SLOW);
	close_many(sockets, n);
	scene_end(&scene, 2048 + n, "%u connections that say nothing", n);
}
END_TEST

/* Another question, and the answer to the one before. */
static void drip(const int *sockets, unsigned n)
{
	uint8_t answer[256];

	for (unsigned i = 0; i < n; i++) {
		while (recv(sockets[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
			;
		raw_packet(KIND_QUERY);
		ck_assert_int_eq(raw_send(sockets[i]), 0);
	}
}

TEST(thousands_who_ask_something_every_second_are_answered)
{
	static int sockets[5000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets))), seconds = repetitions(2, 30);
	struct scene scene;

	scene_begin(&scene, no_maximum, NULL);
	connect_many(&scene, sockets, n, true);
	for (unsigned i = 0; i < seconds; i++) {
		drip(sockets, n);
		sleep(1);
	}
	ck_assert(eventually(status_number(&scene.fixture, "connections") == n + 1));
	close_many(sockets, n);
	scene_end(&scene, 2048 + n, "%u connections that ask a little every second, for %u s", n, seconds);
}
END_TEST

static void expect_one_byte_to_be_the_last(const struct scene *scene, int *sockets, unsigned n)
{
	connect_many(scene, sockets, n, false);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(transport_send(sockets[i], "x", 1, NULL, 0, 0), 0);
	for (unsigned i = 0; i < n; i++)
		expect_cut(sockets[i], REFUSAL_BAD_PACKET);
	close_many(sockets, n);
}

TEST(thousands_who_send_one_byte_every_second_are_cut_off_at_the_first)
{
	static int sockets[5000];
	unsigned n = most_connections(repetitions(500, ARRAY_SIZE(sockets))), seconds = repetitions(2, 30);
	struct scene scene;

	scene_begin(&scene, no_maximum, NULL);
	for (unsigned i = 0; i < seconds; i++) {
		expect_one_byte_to_be_the_last(&scene, sockets, n);
		sleep(1);
	}
	scene_end(&scene, 2048 + n, "%u connections, one byte on each every second, for %u s", n, seconds);
}
END_TEST

/* Until the daemon, which does not read on, has made this side's queue full. */
static unsigned ask_until_nobody_listens(int socket, const char *const *descriptions, size_t n)
{
	const struct packet *packet;
	unsigned asked = 0;

	batch_put(descriptions, n);
	packet = raw_finish();
	while (transport_send(socket, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0)
		asked++;
	return asked;
}

static bool is_disconnected(int socket)
{
	struct pollfd connection = { .fd = socket };

	return poll(&connection, 1, 0) > 0 && connection.revents & POLLHUP;
}

/* They ask for so much that an answer waits for them, and so have a second to read it. */
TEST(thousands_who_never_read_are_cut_off)
{
	const char *nonsense[32];
	/* So many pages in flight are a third of the fds that processes have here. */
	static int sockets[5000];
	unsigned n = most_connections(repetitions(100, ARRAY_SIZE(sockets))), asked = 0;
	struct scene scene;

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		nonsense[i] = "long x";
	scene_begin(&scene, no_maximum, impatient);
	for (unsigned i = 0; i < n; i++) {
		connect_many(&scene, &sockets[i], 1, true);
		asked += ask_until_nobody_listens(sockets[i], nonsense, ARRAY_SIZE(nonsense));
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(eventually(is_disconnected(sockets[i])), "connection %u of %u is not disconnected", i, n);
	/* Their pages are in flight still. */
	ck_assert_uint_eq(status_number(&scene.fixture, "connections"), n + 1);
	close_many(sockets, n);
	scene_end(&scene, 12288 + 3 * n, "%u connections that never read, with %u requests", n, asked);
}
END_TEST

/* Of answers of the largest size, one of which might wait for each connection. */
TEST(of_megabytes_of_unread_answers_few_are_kept)
{
	enum { ANSWER = 124 /* kB */ };
	static const char name[64] = "!no_name";
	const char *same[WIRE_BATCH_MAX];
	static int sockets[1000];
	unsigned n = most_connections(repetitions(200, ARRAY_SIZE(sockets))), asked = 0;
	struct scene scene;

	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		same[i] = name;
	scene_begin(&scene, "", NULL);
	for (unsigned i = 0; i < n; i++) {
		connect_many(&scene, &sockets[i], 1, true);
		asked += ask_until_nobody_listens(sockets[i], same, ARRAY_SIZE(same));
	}
	/* Until it has done all that it will. */
	sleep(repetitions(1, 5));
	scene_go_on(&scene);
	close_many(sockets, n);
	scene_end(&scene, 12288, "%u MB of unread answers asked for on %u connections", asked * ANSWER / 1000, n);
}
END_TEST

SUITE("exhaustion", who_takes_all_of_64_fds_leaves_the_neighbour_what_it_has,
      who_takes_all_of_256_fds_leaves_the_neighbour_what_it_has,
      who_takes_all_of_1024_fds_leaves_the_neighbour_what_it_has,
      the_connection_after_a_tenants_last_is_turned_away_however_often_it_comes,
      thousands_who_say_nothing_are_told_and_cut_off, thousands_who_ask_something_every_second_are_answered,
      thousands_who_send_one_byte_every_second_are_cut_off_at_the_first, thousands_who_never_read_are_cut_off,
      of_megabytes_of_unread_answers_few_are_kept)
