/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long do 200 programs of one tenant take that all need the same 100 events, or 1,000 programs and 20 events, until the last one
 * may emit? Beside the same with ioctls of their own, and beside programs that connect to a server and exchange two empty packets
 * with it, which is the least for any broker. As root, in a guest, bare and as installed.
 */

#include <sys/mman.h>

#include "tests/bench/bench.h"

enum { EVENTS_MAX = 100, TIMES = 3 };

static struct broker broker;
static struct echo echo;
static char names[EVENTS_MAX][NAME_BYTES];
static unsigned n_events;

static int open_data(unsigned number _unused_)
{
	return direct_open();
}

/* As programs do it: they map the page, read it, and keep the data file. */
static int meet_broker(unsigned number _unused_)
{
	int fd = dial(broker.socket), page;
	const volatile uint8_t *bits;

	greet(fd, &page);
	bits = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	if (bits == MAP_FAILED)
		fail("the page");
	(void)*bits;
	close(page);
	return fd;
}

static void by_kernel(int data, unsigned number _unused_)
{
	direct_register_all(data < 0 ? direct_open() : data, names, n_events);
}

static void by_broker(int socket, unsigned number _unused_)
{
	int stream = -1;

	ask_broker(socket < 0 ? meet_broker(0) : socket, names, n_events, &stream, NULL);
	if (stream < 0)
		fail("no data file");
}

static void by_nobody(int socket _unused_, unsigned number _unused_)
{
	int fd = dial(echo.path);

	echo_trip(fd);
	echo_trip(fd);
}

static void run_once(struct side *side, unsigned n, int (*prepare)(unsigned), void (*work)(int, unsigned))
{
	struct programs programs = { .n = n, .prepare = prepare, .work = work };

	make_names(names, n_events);
	programs_start(&programs);
	side_add(side, programs_run(&programs));
	programs_stop(&programs);
	broker_settle(&broker);
}

struct scene {
	unsigned programs, events;
	bool are_connected;
	double aim;
};

static void compare(const struct scene *scene, const char *how, double aim)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "ioctls" },
		    least = { .name = "two empty round trips" };
	unsigned rounds = pick(3, 1);
	char question[128];

	n_events = scene->events;
	for (unsigned i = 0; i < rounds; i++) {
		/* The order in which programs run changes it by some percent. */
		for (unsigned j = 0; j < TIMES; j++)
			run_once(&ours, scene->programs, scene->are_connected ? meet_broker : NULL, by_broker);
		run_once(&theirs, scene->programs, scene->are_connected ? open_data : NULL, by_kernel);
		if (!scene->are_connected)
			run_once(&least, scene->programs, NULL, by_nobody);
	}
	snprintf(question, sizeof(question), "%u programs%s, each the same %u events%s", scene->programs,
		 scene->are_connected ? " that are connected" : "", n_events, how);
	report(question, "us", &ours, &theirs, aim);
	if (scene->are_connected)
		return;
	report(question, "us", &ours, &least, 0);
	snprintf(question, sizeof(question), "the least for any broker, %u programs, %u events%s", scene->programs,
		 n_events, how);
	report(question, "us", &least, &theirs, 0);
}

static void compare_all(bool installed)
{
	static const struct scene scenes[] = { { 200, 100, false, 0.12 },
					       { 200, 100, true, 0.05 },
					       { 1000, 20, false, 0.4 } };

	broker = (struct broker){ .installed = installed };
	broker_start(&broker);
	if (!installed)
		broker_describe(&broker);
	for (unsigned i = 0; i < pick(ARRAY_SIZE(scenes), 2); i++)
		compare(&scenes[i], installed ? ", as installed" : "", installed ? 0 : scenes[i].aim);
	broker_stop(&broker);
}

/* Without a guard each program has its own file, unless an admin who trusts the programs lets them share one. */
static void compare_without_guard(void)
{
	static const struct scene scene = { .programs = 200, .events = 100 };

	broker = (struct broker){ .policy = "[Daemon]\nDefaultMaxConnections=infinity\nGuard=off\n"
					    "[/**]\nStream=shared\n" };
	broker_start(&broker);
	compare(&scene, ", Guard=off, Stream=shared", 0);
	broker_stop(&broker);
}

int main(void)
{
	raise_limits(FILES);
	echo_start(&echo);
	compare_all(false);
	compare_all(true);
	if (pick(1, 0))
		compare_without_guard();
	echo_stop(&echo);
	return EXIT_SUCCESS;
}
