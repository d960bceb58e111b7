/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a reload of many sections keep clients waiting? One asks a small question over and over, others register and
 * release all the time, and the daemon reads its policy again in every other group of round trips. Of a group the longest trip
 * counts; of many groups the median, for now and then somebody waits long for a processor, reload or not.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/bench/bench.h"

enum { LOADERS = 4, GROUPS = 60, TRIPS = 400, SECTIONS = 500, EVENTS = 10, SECTION_BYTES = 192 };

static const char *make_policy(void)
{
	static char text[SECTIONS * SECTION_BYTES];
	size_t at = 0;

	for (unsigned i = 0; i < SECTIONS; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "[/machine.slice/pod-%u/*.scope]\nMaxEvents=%u\nReserveEvents=10\n"
				       "AllowEvents=app_* lib_%u_*\nDenyEvents=*_secret\nMaxConnections=100\n",
				       i, 100 + i, i);
	return text;
}

/* Registers and releases ten events, again and again. */
static _Noreturn void load(const struct broker *broker)
{
	static char names[EVENTS][NAME_BYTES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = connect_to_broker(broker);

		make_names(names, EVENTS);
		ask_broker(fd, names, EVENTS, NULL, NULL);
		close(fd);
		usleep(2000);
	}
}

static double longest(int fd, struct side *ordinary)
{
	static double times[TRIPS];

	for (unsigned i = 0; i < TRIPS; i++) {
		double begin = now();

		query_broker(fd);
		times[i] = now() - begin;
	}
	side_add(ordinary, median(times, TRIPS));
	return times[TRIPS - 1];
}

int main(void)
{
	struct side with = { .name = "with a reload" }, without = { .name = "without" };
	struct side ordinary = { .name = "ordinary trip" }, reloading = { 0 };
	unsigned groups = pick(GROUPS, 15);
	pid_t loaders[LOADERS];
	struct broker broker = { .backend = "embedded", .policy = make_policy() };
	int fd;

	broker_start(&broker);
	for (unsigned i = 0; i < LOADERS; i++) {
		loaders[i] = fork();
		if (loaders[i] == 0)
			load(&broker);
	}
	fd = connect_to_broker(&broker);
	for (unsigned i = 0; i < groups; i++) {
		side_add(&without, longest(fd, &ordinary));
		kill(broker.daemon, SIGHUP);
		side_add(&with, longest(fd, &reloading));
	}
	report("reload of 500 sections under load: the longest of 400 round trips", "us", &with, &without, 0);
	report("... and an ordinary one", "us", &ordinary, NULL, 0);
	for (unsigned i = 0; i < LOADERS; i++)
		finish(loaders[i], SIGKILL);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
