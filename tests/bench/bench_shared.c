/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long do 200 programs of one tenant take that all need the same 100 events, or 1,000 programs and 20 events, from the
 * moment when they may begin until the last may emit? Beside the same with ioctls of their own; and beside programs that only
 * connect to somebody and say two empty packets, which is the least that any broker could do. As root, in a guest.
 */

#include "tests/bench/bench.h"

enum { EVENTS_MAX = 100 };

static struct broker broker;
static struct echo echo;
static char names[EVENTS_MAX][NAME_BYTES];
static unsigned n_events;

static int open_data(unsigned number _unused_)
{
	return direct_open();
}

static int meet_broker(unsigned number _unused_)
{
	return connect_to_broker(&broker);
}

static void by_kernel(int data, unsigned number _unused_)
{
	direct_register_all(data < 0 ? direct_open() : data, names, n_events);
}

/* In packets, as the library does it, but with the patience that a guest takes. */
static void by_broker(int socket, unsigned number _unused_)
{
	ask_broker(socket < 0 ? connect_to_broker(&broker) : socket, names, n_events, NULL, NULL);
}

static void by_nobody(int socket _unused_, unsigned number _unused_)
{
	int fd = dial(echo.path);

	echo_trip(fd);
	echo_trip(fd);
}

struct way {
	struct side time;
	double in_kernel;
};

static void run_once(struct way *way, unsigned n, int (*prepare)(unsigned), void (*work)(int, unsigned))
{
	struct programs programs = { .n = n, .prepare = prepare, .work = work };
	double kernel;

	make_names(names, n_events);
	programs_start(&programs);
	kernel = kernel_time();
	side_add(&way->time, programs_run(&programs));
	way->in_kernel += kernel_time() - kernel;
	programs_stop(&programs);
	broker_settle(&broker);
}

/* One figure of all rounds: it is counted in ticks. */
static void report_kernel(const char *question, const struct way *ours, const struct way *theirs, double aim)
{
	struct side our_time = { .name = ours->time.name }, their_time = { .name = theirs->time.name };
	char longer[128];

	snprintf(longer, sizeof(longer), "... in the kernel (%s)", question);
	side_add(&our_time, ours->in_kernel / ours->time.n);
	side_add(&their_time, theirs->in_kernel / theirs->time.n);
	report(longer, "us", &our_time, &their_time, aim);
}

static void compare_with_nobody(unsigned n, const char *question, struct way *ours, struct way *theirs,
				struct way *nobody)
{
	char least[96];

	report(question, "us", &ours->time, &nobody->time, 0);
	snprintf(least, sizeof(least), "the least that a broker could, %u programs", n);
	report(least, "us", &nobody->time, &theirs->time, 0);
	report_kernel(least, nobody, theirs, 0);
}

static void compare(unsigned n, unsigned events, bool are_connected, const char *how)
{
	struct way ours = { .time = { .name = "broker" } }, theirs = { .time = { .name = "ioctls" } };
	struct way nobody = { .time = { .name = "two empty round trips" } };
	unsigned rounds = pick(3, 1);
	char question[128];

	n_events = events;
	for (unsigned i = 0; i < rounds; i++) {
		run_once(&ours, n, are_connected ? meet_broker : NULL, by_broker);
		run_once(&theirs, n, are_connected ? open_data : NULL, by_kernel);
		if (!are_connected)
			run_once(&nobody, n, NULL, by_nobody);
	}
	snprintf(question, sizeof(question), "%u programs%s, each the same %u events%s", n,
		 are_connected ? " that are connected" : "", events, how);
	report(question, "us", &ours.time, &theirs.time, 0.05);
	report_kernel(question, &ours, &theirs, 0.02);
	if (!are_connected)
		compare_with_nobody(n, question, &ours, &theirs, &nobody);
}

static void compare_all(void)
{
	broker_start(&broker, NULL, no_limits);
	broker_describe(&broker);
	compare(200, 100, false, "");
	if (pick(1, 0)) {
		compare(200, 100, true, "");
		compare(1000, 20, false, "");
	}
	broker_stop(&broker);
}

/* Where nothing guards them each program has a file of its own; an admin who trusts them may say that they share one. */
static void compare_without_guard(void)
{
	broker_start(&broker, NULL,
		     "[Daemon]\nDefaultMaxConnections=infinity\nGuard=off\n"
		     "[/**]\nStream=shared\n");
	compare(200, 100, false, ", Guard=off, Stream=shared");
	broker_stop(&broker);
}

int main(void)
{
	raise_limits(FILES);
	echo_start(&echo);
	compare_all();
	compare_without_guard();
	echo_stop(&echo);
	return EXIT_SUCCESS;
}
