/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What do daemon and keeper cost when nobody asks for anything: how often do they wake up, how much memory do they have, and how
 * much for each program that is connected? With a program that holds an event, and nothing that lingers.
 */

#include <dirent.h>

#include "tests/bench/bench.h"

enum { CONNECTIONS = 1000, SETTLE = 3000000, WATCH = 20000000 };

static char names[1][NAME_BYTES];

/* A line of /proc/PID/status, or of a thread's. */
static double number_of(const char *path, const char *key)
{
	char line[128];
	double number = 0;
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			number = strtod(line + strlen(key), NULL);
	if (file)
		fclose(file);
	return number;
}

static double in_status(pid_t pid, const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return number_of(path, key);
}

/* Of all its threads. */
static double wake_ups(pid_t pid)
{
	char path[320];
	struct dirent *entry;
	double sum = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);
		if (*entry->d_name != '.')
			sum += number_of(path, "voluntary_ctxt_switches:");
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

static void report_one(const char *what, const char *name, const char *unit, double value, double aim)
{
	struct side side = { .name = name };

	side_add(&side, value);
	report(what, unit, &side, NULL, aim);
}

static void memory(pid_t pid, const char *name)
{
	report_one("idle: memory (RSS), including shared memory", name, "KiB", in_status(pid, "VmRSS:"), 3072);
	report_one("idle: memory of its own", name, "KiB", in_status(pid, "RssAnon:"), 0);
}

static void wakes(const struct broker *broker)
{
	double daemon, keeper;
	unsigned time = pick(WATCH, WATCH / 5);

	usleep(SETTLE);
	daemon = wake_ups(broker->daemon);
	keeper = broker->keeper ? wake_ups(broker->keeper) : 0;
	usleep(time);
	/* Less than one is none; a number with that aim is none at all. */
	report_one("idle: wake-ups in a minute", "daemon", "", (wake_ups(broker->daemon) - daemon) * 6e7 / time, 0.001);
	if (broker->keeper)
		report_one("idle: wake-ups in a minute", "keeper", "", (wake_ups(broker->keeper) - keeper) * 6e7 / time,
			   0.001);
}

/* What both have grown by since, for each connection. */
static void report_growth(const struct broker *broker, const char *what, double daemon, double keeper, double aim)
{
	report_one(what, "daemon", "bytes", (in_status(broker->daemon, "RssAnon:") - daemon) * 1024 / CONNECTIONS, aim);
	if (broker->keeper)
		report_one(what, "keeper", "bytes",
			   (in_status(broker->keeper, "RssAnon:") - keeper) * 1024 / CONNECTIONS, aim);
}

static void connections(const struct broker *broker)
{
	static int sockets[CONNECTIONS];
	double daemon = in_status(broker->daemon, "RssAnon:");
	double keeper = broker->keeper ? in_status(broker->keeper, "RssAnon:") : 0;

	for (unsigned i = 0; i < CONNECTIONS; i++)
		sockets[i] = connect_to_broker(broker);
	report_growth(broker, "each of 1,000 connections", daemon, keeper, 1024);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		ask_broker(sockets[i], names, 1, NULL, NULL);
	report_growth(broker, "each of 1,000 connections with an event that others have", daemon, keeper, 1024);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close(sockets[i]);
}

int main(void)
{
	struct broker broker;
	int holder;

	raise_limits(FILES);
	if (has_user_events())
		broker_start_apart(&broker, no_limits, NULL);
	else
		broker_start(&broker, "embedded", no_limits);
	holder = connect_to_broker(&broker);
	make_names(names, 1);
	ask_broker(holder, names, 1, NULL, NULL);
	wakes(&broker);
	memory(broker.daemon, "daemon");
	if (broker.keeper)
		memory(broker.keeper, "keeper");
	connections(&broker);
	close(holder);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
