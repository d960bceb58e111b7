/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What do the broker's processes cost when no client asks for anything: memory and wake-ups? How much memory does each connected
 * program cost, and what is left of it when 30,000 events have gone? A program holds an event, and nothing lingers.
 */

#include "tests/bench/bench.h"

enum {
	CONNECTIONS = 1000,
	SETTLE = 3000000,
	WATCH = 20000000,
	RETURN = 2000000, /* µs; the daemon returns the rest of its memory within a second */
	PROCESSES_MAX = 64,
	EVENTS_MAX = 30000,
	EVENTS_QUICK = 3000,
	SHARES_AIM = 5120
};

static struct broker broker;
static char names[EVENTS_MAX][NAME_BYTES];

/* A program's name for the kernel, its name in the table, and how much memory (RSS) a process of it may have, in KiB. */
struct kind {
	const char *comm, *name;
	double aim;
};

static const struct kind kinds[] = {
	{ "userevd", "daemon", 2560 },	       { "userevd-keeper", "keeper", 1229 },
	{ "userevd-enabler", "enabler", 614 }, { "userevd-spawner", "spawner", 614 },
	{ "userevd-janitor", "janitor", 0 },   { "", "another process", 0 },
};

static const struct kind *kind_of(pid_t pid)
{
	char path[64], comm[32] = "";
	const struct kind *kind = kinds;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (file && fgets(comm, sizeof(comm), file))
		comm[strcspn(comm, "\n")] = '\0';
	if (file)
		fclose(file);
	while (*kind->comm && !streq(kind->comm, comm))
		kind++;
	return kind;
}

static void memory_and_wake_ups(void)
{
	pid_t pids[PROCESSES_MAX];
	double before[PROCESSES_MAX], shares = 0;
	unsigned n = broker_processes(&broker, pids, PROCESSES_MAX), time = pick(WATCH, WATCH / 5);

	usleep(SETTLE);
	for (unsigned i = 0; i < n; i++)
		before[i] = process_wake_ups(pids[i]);
	usleep(time);
	for (unsigned i = 0; i < n; i++) {
		double wake_ups = (process_wake_ups(pids[i]) - before[i]) * 6e7 / time;
		const struct kind *kind = kind_of(pids[i]);

		/* An aim of 0 would be none. */
		report_value("idle: wake-ups in a minute", "", kind->name, wake_ups, 0.001);
		report_value("idle: memory (RSS)", "KiB", kind->name, process_status(pids[i], "VmRSS:"), kind->aim);
		report_value("idle: memory of its own", "KiB", kind->name, process_status(pids[i], "RssAnon:"), 0);
		shares += process_share(pids[i]);
	}
	report_value("idle: memory of all processes (PSS)", "KiB", "all", shares, SHARES_AIM);
}

struct private_memory {
	double daemon, keeper;
};

static struct private_memory private_memory(void)
{
	return (struct private_memory){
		.daemon = process_status(broker.daemon, "RssAnon:"),
		.keeper = broker.keeper ? process_status(broker.keeper, "RssAnon:") : 0,
	};
}

static void report_growth(const char *what, const struct private_memory *before)
{
	const struct private_memory after = private_memory();

	report_value(what, "bytes", "daemon", (after.daemon - before->daemon) * 1024 / CONNECTIONS, 1024);
	if (broker.keeper)
		report_value(what, "bytes", "keeper", (after.keeper - before->keeper) * 1024 / CONNECTIONS, 1024);
}

static void connections(void)
{
	static int sockets[CONNECTIONS];
	const struct private_memory before = private_memory();

	for (unsigned i = 0; i < CONNECTIONS; i++)
		sockets[i] = connect_to_broker(&broker);
	report_growth("each of 1,000 connections", &before);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		ask_broker(sockets[i], names, 1, NULL, NULL);
	report_growth("each of 1,000 connections with an event that others have", &before);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close(sockets[i]);
}

/* The memory that the daemon keeps after the events of one program have gone. */
static void after_many_events(void)
{
	struct side before = { .name = "before" }, with = { .name = "with them" },
		    after = { .name = "when they have gone" };
	unsigned n = has_user_events() ? pick(EVENTS_MAX, EVENTS_QUICK) : EVENTS_MAX;
	char question[96];
	int holder;

	broker_empty(&broker);
	side_add(&before, process_status(broker.daemon, "VmRSS:"));
	holder = connect_to_broker(&broker);
	make_names(names, n);
	ask_broker(holder, names, n, NULL, NULL);
	side_add(&with, process_status(broker.daemon, "VmRSS:"));
	close(holder);
	broker_empty(&broker);
	usleep(RETURN);
	side_add(&after, process_status(broker.daemon, "VmRSS:"));
	snprintf(question, sizeof(question), "daemon's memory (RSS), %u events", n);
	report(question, "KiB", &with, &before, 0);
	report(question, "KiB", &after, &before, 1.2);
}

int main(void)
{
	int holder;

	raise_limits(FILES);
	broker.installed = has_user_events();
	if (!broker.installed)
		broker.backend = "embedded";
	broker_start(&broker);
	holder = connect_to_broker(&broker);
	make_names(names, 1);
	ask_broker(holder, names, 1, NULL, NULL);
	memory_and_wake_ups();
	connections();
	close(holder);
	after_many_events();
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
