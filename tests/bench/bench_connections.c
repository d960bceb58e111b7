/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What do 10 to 10,000 connections cost: memory, and the time of a request; and how many requests a second are answered when up
 * to 200 clients ask all the time? Beside dbus-broker's answer to a call to itself. A single request is measured on one processor: on
 * two, whether the scheduler wakes the other one by an interrupt is a greater difference than that between the two daemons.
 */

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

enum {
	CONNECTIONS_MAX = 10000,
	OWN_MAX = 1000,
	HOLDERS_MAX = 2,
	SAMPLES = 20000,
	STRIDE = 7919,
	RUN_TIME = 500000,
	SPARE = 1000
};

/* One of the two. */
struct system {
	const char *name;
	pid_t pid;
	int (*connect)(void);
	void (*ask)(int socket);
	int sockets[OWN_MAX]; /* of those that ask in turn */
	unsigned n;
	pid_t holders[HOLDERS_MAX]; /* of the others: one process may not have so many files */
	unsigned held;
	double first_memory;
};

static struct broker broker;

static int connect_ours(void)
{
	return connect_to_broker(&broker);
}

static void ask_ours(int socket)
{
	query_broker(socket);
}

static struct system ours = { .name = "userevd", .connect = connect_ours, .ask = ask_ours };
static struct system theirs = { .name = "dbus-broker", .connect = rival_dbus_connect, .ask = rival_dbus_trip };

/* --- memory and latency --- */

/* In another process, which then only waits. */
static void hold_more(struct system *system, unsigned n)
{
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		fail("pipe");
	system->holders[system->held++] = fork();
	if (system->holders[system->held - 1] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; i < n; i++)
			system->connect();
		if (write(ready[1], "r", 1) == 1)
			pause();
		_exit(EXIT_SUCCESS);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		fail("a holder");
	close(ready[0]);
}

static void connect_more(struct system *system, unsigned n)
{
	if (system->n == 0)
		system->first_memory = process_status(system->pid, "RssAnon:");
	while (system->n < MIN(n, OWN_MAX))
		system->sockets[system->n++] = system->connect();
	if (n > OWN_MAX)
		hold_more(system, n - OWN_MAX);
}

static void disconnect_all(struct system *system)
{
	for (unsigned i = 0; i < system->held; i++)
		finish(system->holders[i], SIGKILL);
	for (unsigned i = 0; i < system->n; i++)
		close(system->sockets[i]);
}

static double memory_each(const struct system *system, unsigned n)
{
	return (process_status(system->pid, "RssAnon:") - system->first_memory) * 1024 / n;
}

struct latency {
	struct side middle, most, nearly_all;
};

static void ask_around(struct system *system, struct latency *ret)
{
	static double took[SAMPLES];
	unsigned samples = pick(SAMPLES, 5000), who = 0;

	for (unsigned i = 0; i < samples; i++) {
		double begin = now();

		system->ask(system->sockets[who]);
		took[i] = now() - begin;
		who = (who + STRIDE) % MAX(system->n, 1U);
	}
	side_add(&ret->middle, quantile(took, samples, 0.5));
	side_add(&ret->most, quantile(took, samples, 0.99));
	side_add(&ret->nearly_all, quantile(took, samples, 0.999));
}

static void with_connections(unsigned n)
{
	struct latency our = { { .name = ours.name }, { .name = ours.name }, { .name = ours.name } };
	struct latency their = { { .name = theirs.name }, { .name = theirs.name }, { .name = theirs.name } };
	struct side memory = { .name = ours.name }, their_memory = { .name = theirs.name };
	unsigned rounds = pick(7, 3);
	char question[96];

	connect_more(&ours, n);
	connect_more(&theirs, n);
	for (unsigned i = 0; i < rounds; i++) {
		ask_around(&ours, &our);
		ask_around(&theirs, &their);
	}
	snprintf(question, sizeof(question), "%u connections: a request on one processor, median", n);
	report(question, "us", &our.middle, &their.middle, 1);
	snprintf(question, sizeof(question), "%u connections: a request on one processor, 99 %%", n);
	report(question, "us", &our.most, &their.most, 1);
	snprintf(question, sizeof(question), "%u connections: a request on one processor, 99.9 %%", n);
	report(question, "us", &our.nearly_all, &their.nearly_all, 1);
	point("latency", ours.name, n, median(our.middle.value, rounds));
	point("latency", theirs.name, n, median(their.middle.value, rounds));
	if (n < 1000)
		return;
	side_add(&memory, memory_each(&ours, n));
	side_add(&their_memory, memory_each(&theirs, n));
	snprintf(question, sizeof(question), "%u connections: memory of each", n);
	report(question, "bytes", &memory, &their_memory, 1);
}

/* --- throughput --- */

static uint64_t *answered; /* by each client */
static struct system *asked;
static double until;

static int prepare(unsigned number)
{
	answered[number] = 0;
	return asked->connect();
}

static void ask_all_the_time(int socket, unsigned number)
{
	double end = now() + until;

	while (now() < end) {
		asked->ask(socket);
		answered[number]++;
	}
}

/* Microseconds for each request of all of them. */
static double busy(struct system *system, unsigned clients)
{
	struct programs programs = { .n = clients, .prepare = prepare, .work = ask_all_the_time };
	uint64_t sum = 0;
	double took;

	asked = system;
	programs_start(&programs);
	took = programs_run(&programs);
	programs_stop(&programs);
	for (unsigned i = 0; i < clients; i++)
		sum += answered[i];
	return took / (double)sum;
}

static void with_busy_clients(unsigned clients)
{
	struct side our = { .name = ours.name }, their = { .name = theirs.name };
	unsigned rounds = pick(5, 3);
	char question[96];

	until = pick(RUN_TIME, RUN_TIME / 4);
	for (unsigned i = 0; i < rounds; i++) {
		side_add(&our, busy(&ours, clients));
		side_add(&their, busy(&theirs, clients));
	}
	snprintf(question, sizeof(question), "%u clients that ask all the time: per request", clients);
	report(question, "us", &our, &their, 1);
	point("throughput", ours.name, clients, 1e6 / median(our.value, our.n));
	point("throughput", theirs.name, clients, 1e6 / median(their.value, their.n));
}

int main(void)
{
	const char *why;
	unsigned most = raise_limits(CONNECTIONS_MAX + SPARE) ? CONNECTIONS_MAX : 100;

	broker.backend = "embedded";
	broker_start(&broker);
	ours.pid = broker.daemon;
	theirs.pid = rival_dbus_start(&why);
	if (theirs.pid == 0) {
		report_missing("10 to 10,000 connections", "dbus-broker", why);
		broker_stop(&broker);
		return EXIT_SUCCESS;
	}
	answered = mmap(NULL, 256 * sizeof(*answered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned n = 10; n <= 100; n *= 10)
		with_busy_clients(n);
	with_busy_clients(200);
	process_pin(ours.pid, 0);
	process_pin(theirs.pid, 0);
	process_pin(0, 0);
	for (unsigned n = 10; n <= most; n *= 10)
		with_connections(n);
	if (most < CONNECTIONS_MAX)
		note("not more than %u connections: ulimit -n allows no more files", most);
	disconnect_all(&ours);
	disconnect_all(&theirs);
	rival_dbus_stop();
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
