/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a neighbour wait at most for an answer, whatever another tenant does? As root, in a guest with one processor, for which
 * the tenant competes. A third tenant has 30,000 events all the time.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/bench/bench.h"

enum {
	EVENTS_MAX = 30000,
	EVENTS_QUICK = 3000,
	CONNECTIONS_MAX = 10000,
	CONNECTIONS_QUICK = 1000,
	LINGERING_MAX = 2000,
	LINGERING_QUICK = 200,
	BATCH = 500,
	TRIPS = 24000,
	TRIPS_QUICK = 4000,
	LONGEST_AIM = 5000
};

/* Its clients may have said hello before they are throttled. */
static const char policy[] = "[Daemon]\nDefaultMaxConnections=infinity\n"
			     "[/**]\nMaxEvents=32700\nMaxFiles=20000\n"
			     "[/throttled]\nMaxRequestsPerSecond=10/10000\n"
			     "[/ends]\nMaxRequestsPerSecond=10/10000\n";

static struct broker broker;
static struct echo echo;
static unsigned events, connections, lingering;

/* --- the other tenant --- */

struct tenant {
	const char *cgroup, *question;
	/* Before the neighbour's waits are measured; and while they are, which may end the process. */
	void (*prepare)(void);
	void (*act)(void);
};

static void hold_events(void)
{
	static char names[EVENTS_MAX][NAME_BYTES];

	make_names(names, events);
	ask_broker(connect_to_broker(&broker), names, events, NULL, NULL);
}

static void churn(void)
{
	static char names[BATCH][NAME_BYTES];

	for (;;) {
		int fd = connect_to_broker(&broker);

		make_names(names, BATCH);
		ask_broker(fd, names, BATCH, NULL, NULL);
		close(fd);
	}
}

static void ask_too_much(void)
{
	static int sockets[CONNECTIONS_MAX];

	for (unsigned i = 0; i < connections; i++)
		sockets[i] = connect_to_broker(&broker);
	for (unsigned i = 0; i < connections; i++)
		send_query(sockets[i]);
}

/* Each with an event on a file of its own, which stays open. */
static void leave_files(void)
{
	static char names[1][NAME_BYTES];

	for (unsigned i = 0; i < lingering; i++) {
		int fd = connect_to_broker(&broker), stream;

		make_names(names, 1);
		ask_broker(fd, names, 1, &stream, NULL);
		close(fd);
	}
}

static void leave(void)
{
	_exit(EXIT_SUCCESS);
}

static void rest(void)
{
}

static _Noreturn void be(const struct tenant *tenant, int ready, int go)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_cgroup(tenant->cgroup);
	tenant->prepare();
	if (write(ready, "r", 1) != 1 || read(go, &byte, 1) != 1)
		fail("pipe");
	tenant->act();
	for (;;)
		pause();
}

struct running {
	pid_t pid;
	int go;
};

static struct running run_tenant(const struct tenant *tenant)
{
	int ready[2], go[2];
	struct running running;
	char byte;

	if (pipe(ready) < 0 || pipe(go) < 0)
		fail("pipe");
	running.pid = fork();
	if (running.pid == 0)
		be(tenant, ready[1], go[0]);
	close(ready[1]);
	close(go[0]);
	if (read(ready[0], &byte, 1) != 1)
		fail(tenant->question);
	close(ready[0]);
	running.go = go[1];
	return running;
}

/* --- the neighbour --- */

static void query(int socket)
{
	query_broker(socket);
}

static double trip_time(void (*trip)(int socket), int socket)
{
	double begin = now();

	trip(socket);
	return now() - begin;
}

static void neighbour(const struct tenant *tenant, struct running *running)
{
	int socket = connect_to_broker(&broker), empty = dial(echo.path);
	double longest = 0, processor = 0;
	char question[128];

	if (write(running->go, "g", 1) != 1)
		fail("pipe");
	for (unsigned i = 0; i < pick(TRIPS, TRIPS_QUICK); i++) {
		double took = trip_time(query, socket), waited = trip_time(echo_trip, empty);

		longest = MAX(longest, took);
		processor = MAX(processor, waited);
	}
	snprintf(question, sizeof(question), tenant->question, connections);
	report_value(question, "us", "request", longest, LONGEST_AIM);
	report_value("... an empty round trip meanwhile, which waits for the processor alone", "us", "echo", processor,
		     0);
	close(socket);
	close(empty);
}

static void measure(const struct tenant *tenant)
{
	struct running running = run_tenant(tenant);

	neighbour(tenant, &running);
	close(running.go);
	finish(running.pid, SIGKILL);
}

static void begin(bool installed, const char *option)
{
	direct_settle();
	broker = (struct broker){ .installed = installed, .policy = policy, .option = option };
	broker_start(&broker);
}

int main(void)
{
	const struct tenant rests = { "/rests", "a neighbour's longest wait, a tenant at rest", rest, rest };
	const struct tenant churns = { "/churns", "... that registers and releases events", rest, churn };
	const struct tenant throttled = { "/throttled", "... with %u throttled connections", ask_too_much, rest };
	const struct tenant ends = { "/ends", "... whose %u throttled connections end", ask_too_much, leave };
	const struct tenant lingers = { "/lingers", "... whose files linger, without a guard", leave_files, rest };
	const struct tenant holds = { "/holds", "... that releases all of its events at once", hold_events, leave };
	const struct rlimit files = { 4 * CONNECTIONS_MAX, 4 * CONNECTIONS_MAX };
	struct running holder;

	setrlimit(RLIMIT_NOFILE, &files);
	events = pick(EVENTS_MAX, EVENTS_QUICK);
	connections = pick(CONNECTIONS_MAX, CONNECTIONS_QUICK);
	lingering = pick(LINGERING_MAX, LINGERING_QUICK);
	note("A third tenant has %u events; one has %u files that linger. As installed, but for the row with a bare daemon.",
	     events, lingering);
	echo_start(&echo);
	begin(true, "--guard=off");
	measure(&lingers);
	broker_stop(&broker);
	begin(true, NULL);
	holder = run_tenant(&holds);
	measure(&rests);
	measure(&churns);
	measure(&throttled);
	measure(&ends);
	neighbour(&holds, &holder);
	close(holder.go);
	finish(holder.pid, 0);
	broker_stop(&broker);
	echo_stop(&echo);
	return EXIT_SUCCESS;
}
