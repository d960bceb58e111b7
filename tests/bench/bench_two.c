/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a client wait when it has a processor of its own, and the daemon has the other? Requests beside empty round trips, and
 * batches of new events beside the same on one processor. With the embedded backend.
 */

#include "tests/bench/bench.h"

enum { TRIPS = 500, EVENTS = 1000, DAEMONS = 2 };

static struct broker broker = { .backend = "embedded" };
static struct echo echo;

static void pin(int server)
{
	pid_t pids[DAEMONS] = { broker.daemon };
	unsigned n = process_family(pids, 1, DAEMONS);

	for (unsigned i = 0; i < n; i++)
		process_pin(pids[i], server);
	process_pin(echo.pid, server);
	process_pin(0, 0);
}

static double trips(int socket, bool to_broker)
{
	double begin = now();

	for (unsigned i = 0; i < TRIPS; i++)
		if (to_broker)
			query_broker(socket);
		else
			echo_trip(socket);
	return (now() - begin) / TRIPS;
}

static double new_events(void)
{
	static char names[EVENTS][NAME_BYTES];
	int fd = connect_to_broker(&broker);
	double begin;

	make_names(names, EVENTS);
	begin = now();
	ask_broker(fd, names, EVENTS, NULL, NULL);
	begin = (now() - begin) / EVENTS;
	close(fd);
	broker_empty(&broker);
	return begin;
}

int main(void)
{
	struct side request = { .name = "request" }, empty = { .name = "empty round trip" };
	struct side two = { .name = "two processors" }, one = { .name = "one processor" };
	unsigned rounds = pick(25, 9);
	int ours, theirs;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		report_missing("client and daemon on two processors", "one processor", "this machine has one");
		return EXIT_SUCCESS;
	}
	broker_start(&broker);
	echo_start(&echo);
	ours = connect_to_broker(&broker);
	theirs = dial(echo.path);
	for (unsigned i = 0; i < rounds; i++) {
		pin(1);
		side_add(&request, trips(ours, true));
		side_add(&empty, trips(theirs, false));
		side_add(&two, new_events());
		pin(0);
		side_add(&one, new_events());
	}
	report("a small request, client and daemon on two processors", "us", &request, &empty, 0);
	report("each of 1,000 new events in batches, client and daemon on two processors", "us", &two, &one, 0);
	echo_stop(&echo);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
