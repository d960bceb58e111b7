/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does nobody answer when the daemon is killed and started again, with 500 programs of 100 tenants that hold 1,000 or
 * 10,000 events? From the kill until all of them have an answer, beside as many programs that register their events themselves
 * again, as they would have to without a keeper. As root, in a guest.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/bench/bench.h"

enum {
	PROGRAMS = 500,
	TENANTS = 100,
	EVENTS_MAX = 20,
	DEPOSIT = 500000, /* µs in which the keeper has got all connections; newer ones end with the daemon */
};

static struct broker broker = { .installed = true, .option = "--tenants=process" };
static char names[PROGRAMS][EVENTS_MAX][NAME_BYTES];
static int sockets[PROGRAMS];
static unsigned events_each;

/* A tenant is a process, and the name that it has. */
static void be_of_tenant(unsigned number)
{
	char name[32];

	snprintf(name, sizeof(name), "tenant_%u", number);
	prctl(PR_SET_NAME, name);
}

static void hold(void)
{
	for (unsigned i = 0; i < PROGRAMS; i++) {
		make_names(names[i], events_each);
		be_of_tenant(i % TENANTS);
		sockets[i] = connect_to_broker(&broker);
		ask_broker(sockets[i], names[i], events_each, NULL, NULL);
	}
	usleep(DEPOSIT);
}

static void let_go(void)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		close(sockets[i]);
	broker_settle(&broker);
}

static double restart(double *ret_end)
{
	double begin = now();

	kill(broker.daemon, SIGKILL);
	waitpid(broker.daemon, NULL, 0);
	*ret_end = now() - begin;
	broker_start_daemon(&broker);
	query_by_all(sockets, PROGRAMS);
	return now() - begin;
}

/* The start of the program alone. */
static double start_and_end(void)
{
	const char *const argv[] = { built("userevd"), "--version", NULL };
	double begin = now();

	run(argv);
	return now() - begin;
}

/* On another file: the events of the last one ended with it. */
static void by_kernel(int prepared _unused_, unsigned number)
{
	direct_register_all(direct_open(), names[number], events_each);
}

static double register_again(void)
{
	struct programs programs = { .n = PROGRAMS, .work = by_kernel };
	double took;

	for (unsigned i = 0; i < PROGRAMS; i++)
		make_names(names[i], events_each);
	programs_start(&programs);
	took = programs_run(&programs);
	programs_stop(&programs);
	direct_settle();
	return took;
}

static void compare(unsigned events)
{
	struct side ours = { .name = "daemon restarted" }, theirs = { .name = "ioctls of all" };
	struct side ends = { .name = "until it is killed" }, starts = { .name = "userevd --version" };
	struct side restoring = { .name = "daemon restarted" };
	unsigned rounds = has_status_page() ? 1 : pick(3, 1), restarts = pick(3, 1);
	char question[96];
	double end;

	events_each = events / PROGRAMS;
	for (unsigned i = 0; i < rounds; i++) {
		hold();
		for (unsigned j = 0; j < restarts; j++) {
			side_add(&starts, start_and_end());
			side_add(&ours, restart(&end));
			side_add(&ends, end);
			side_add(&restoring, ours.value[ours.n - 1] - starts.value[starts.n - 1] - end);
		}
		let_go();
		side_add(&theirs, register_again());
	}
	snprintf(question, sizeof(question), "restart with 100 tenants, 500 connections and %u events", events);
	report(question, "us", &ours, &theirs, 1);
	report("... of that the end of the daemon before", "us", &ends, NULL, 0);
	report("... of that the start of a program", "us", &starts, NULL, 0);
	report("... and what is left, which is restoring", "us", &restoring, &theirs, 1);
}

int main(void)
{
	raise_limits(FILES);
	broker_start(&broker);
	compare(1000);
	if (pick(1, 0) && !has_status_page())
		compare(10000);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
