/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a neighbour wait at most for an answer while another tenant, with 30,000 events, registers and releases as fast as it
 * can, and while the daemon rewrites its ledger because of that? As root, in a guest with one processor, for which the tenant competes.
 */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "daemon/ledger/ledger.h"
#include "tests/bench/bench.h"

enum {
	EVENTS_MAX = 30000,
	EVENTS_QUICK = 3000,
	BATCH = 500,
	TRIPS = 20,
	GROUPS = 6000,
	REWRITES = 5,
	LONGEST_AIM = 5000
};

static struct broker broker;
static struct echo echo;

/* Registers all events, and from then on a batch at a time, which it releases by ending its connection. */
static _Noreturn void churn(unsigned events, bool at_rest, int ready)
{
	static char names[EVENTS_MAX][NAME_BYTES];
	int holder;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_cgroup("/churner");
	holder = connect_to_broker(&broker);
	make_names(names, events);
	ask_broker(holder, names, events, NULL, NULL);
	if (write(ready, "r", 1) != 1)
		fail("pipe");
	if (at_rest)
		pause();
	for (;;) {
		int fd = connect_to_broker(&broker);

		make_names(names, BATCH);
		ask_broker(fd, names, BATCH, NULL, NULL);
		close(fd);
	}
}

static pid_t start_churner(unsigned events, bool at_rest)
{
	int ends[2];
	pid_t pid;
	char byte;

	if (pipe(ends) < 0)
		fail("pipe");
	pid = fork();
	if (pid == 0)
		churn(events, at_rest, ends[1]);
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		fail("the churning tenant");
	close(ends[0]);
	return pid;
}

/* The file of the daemon's ledger, or -1. */
static int open_ledger(void)
{
	char path[320], target[64];
	struct dirent *entry;
	DIR *fds;
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)broker.daemon);
	fds = opendir(path);
	while (fds && fd < 0 && (entry = readdir(fds))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)broker.daemon, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strstr(target, "ledger"))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fds)
		closedir(fds);
	return fd;
}

/* Changes when a rewrite ends. */
static uint64_t ledger_start(int fd)
{
	struct ledger_header header = { 0 };

	if (fd >= 0 && pread(fd, &header, sizeof(header), 0) != sizeof(header))
		fail("the ledger");
	return header.start;
}

static double longest_trip(int socket, bool is_empty)
{
	double longest = 0;

	for (unsigned i = 0; i < TRIPS; i++) {
		double begin = now();

		if (is_empty)
			echo_trip(socket);
		else
			query_broker(socket);
		longest = MAX(longest, now() - begin);
	}
	return longest;
}

struct waits {
	double longest, while_rewritten, empty;
	unsigned rewrites;
};

/* A rewrite is in the group of trips at whose end it ends, or in the one before. */
static struct waits neighbour(int ledger)
{
	struct waits waits = { 0 };
	uint64_t start = ledger_start(ledger);
	int socket = connect_to_broker(&broker), empty = dial(echo.path);
	double last = 0;

	for (unsigned i = 0; i < pick(GROUPS, GROUPS / 10) && waits.rewrites < REWRITES; i++) {
		double longest = longest_trip(socket, false);

		waits.longest = MAX(waits.longest, longest);
		waits.empty = MAX(waits.empty, longest_trip(empty, true));
		if (ledger_start(ledger) != start) {
			start = ledger_start(ledger);
			waits.while_rewritten = MAX(waits.while_rewritten, MAX(longest, last));
			waits.rewrites++;
		}
		last = longest;
	}
	close(socket);
	close(empty);
	return waits;
}

static void measure(bool installed, bool at_rest, unsigned events)
{
	struct waits waits;
	char question[128];
	pid_t churner;
	int ledger;

	direct_settle();
	broker = (struct broker){ .installed = installed };
	broker_start(&broker);
	churner = start_churner(events, at_rest);
	ledger = open_ledger();
	waits = neighbour(ledger);
	snprintf(question, sizeof(question), "a neighbour's longest wait, a tenant with %u events %s%s", events,
		 at_rest ? "at rest" : "that registers and releases", installed ? ", as installed" : "");
	report_value(question, "us", "request", waits.longest, at_rest ? 0 : LONGEST_AIM);
	report_value("... an empty round trip meanwhile, which waits for the processor alone", "us", "echo",
		     waits.empty, 0);
	if (waits.rewrites > 0)
		report_value("... while the ledger is rewritten", "us", "request", waits.while_rewritten, LONGEST_AIM);
	else if (installed && !at_rest)
		report_missing("a neighbour's longest wait while the ledger is rewritten", "request",
			       "it was not rewritten");
	if (ledger >= 0)
		close(ledger);
	finish(churner, SIGKILL);
	broker_stop(&broker);
}

int main(void)
{
	unsigned events = pick(EVENTS_MAX, EVENTS_QUICK);

	echo_start(&echo);
	measure(true, true, events);
	measure(true, false, events);
	measure(false, false, events);
	echo_stop(&echo);
	return EXIT_SUCCESS;
}
