/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What do programs that register by themselves pay for being held to a policy, and what do all others? Both sides in one run: the bare
 * kernel, then with the guard of a policy without native events, then with native events. As root, in a guest.
 */

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "tests/bench/bench.h"

enum { REGISTRATIONS = 200, CALLS = 1000, ROUNDS = 3 };

static const char tracefs_file[] = "/sys/kernel/tracing/user_events_data";
static const char native_file[] = "/run/userevd/native/user_events_data";
static const char cgroup[] = "/bench-native";

enum deed { NEW_EVENT, KNOWN_EVENT, RECORD, OTHER_IOCTL, OPEN_AND_CLOSE, DEEDS };

static const struct {
	const char *question;
	double aim;
} deeds[DEEDS] = {
	[NEW_EVENT] = { "a native program's registration of a new event", 1.5 },
	[KNOWN_EVENT] = { "a native program's registration of an event that it has", 1.5 },
	[RECORD] = { "a native program's record", 1.005 },
	[OTHER_IOCTL] = { "an ioctl on another file", 1.1 },
	[OPEN_AND_CLOSE] = { "open and close of another file", 1.05 },
};
static struct side sides[2][DEEDS];

static uint32_t words[REGISTRATIONS];
static char names[REGISTRATIONS][NAME_BYTES];

static void register_all(int data, bool each_new, struct side *side)
{
	double begin;

	make_names(names, each_new ? REGISTRATIONS : 1);
	/* The first one pays for pages and tables. */
	direct_register(data, names[0], &words[0]);
	begin = now();
	for (unsigned i = 1; i < REGISTRATIONS; i++)
		direct_register(data, names[each_new ? i : 0], &words[i]);
	side_add(side, (now() - begin) / (REGISTRATIONS - 1));
}

static void write_records(int data, struct side *side)
{
	uint32_t index;
	char payload[12] = ""; /* as make_names() describes it */
	const struct iovec parts[] = { { &index, sizeof(index) }, { payload, sizeof(payload) } };
	double begin;

	make_names(names, 1);
	index = direct_register(data, names[0], &words[0]);
	direct_switch(name_of(names[0]), true);
	begin = now();
	for (unsigned i = 0; i < CALLS; i++)
		if (writev(data, parts, 2) != sizeof(index) + sizeof(payload))
			fail("writev");
	side_add(side, (now() - begin) / CALLS);
	direct_switch(name_of(names[0]), false);
}

static void do_other(bool open_too, struct side *side)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);
	double begin = now();

	for (unsigned i = 0; i < CALLS; i++)
		if (open_too)
			close(open("/dev/null", O_RDWR | O_CLOEXEC));
		else
			ioctl(file, 0x1234, 0);
	side_add(side, (now() - begin) / CALLS);
	close(file);
}

/* Each in a process of its own, so that nothing is left. */
static void measure(const char *path, enum deed deed, struct side *side)
{
	int pipes[2], data;
	struct side result = { 0 };
	pid_t pid;

	if (pipe(pipes) < 0)
		fail("pipe");
	pid = fork();
	if (pid == 0) {
		enter_cgroup(cgroup);
		data = open(path, O_WRONLY | O_CLOEXEC);
		if (data < 0)
			fail(path);
		if (deed == RECORD)
			write_records(data, &result);
		else if (deed == OTHER_IOCTL || deed == OPEN_AND_CLOSE)
			do_other(deed == OPEN_AND_CLOSE, &result);
		else
			register_all(data, deed == NEW_EVENT, &result);
		_exit(write(pipes[1], &result, sizeof(result)) != sizeof(result));
	}
	close(pipes[1]);
	if (read(pipes[0], &result, sizeof(result)) != sizeof(result))
		fail("a measuring process");
	close(pipes[0]);
	finish(pid, 0);
	side_add(side, result.value[0]);
	direct_settle();
}

static void measure_all(const char *path, struct side *into, enum deed first, enum deed end)
{
	for (enum deed i = first; i < end; i++)
		for (unsigned round = 0; round < ROUNDS; round++)
			measure(path, i, &into[i]);
}

static void measure_with_policy(const char *policy, bool native, struct side *into, enum deed first)
{
	struct broker broker = { .installed = true, .policy = policy, .native = native };

	broker_start(&broker);
	broker_rest(&broker);
	/* The kernel knows a tenant a moment after its cgroup is made. */
	usleep(100000);
	measure_all(native ? native_file : tracefs_file, into, first, DEEDS);
	broker_stop(&broker);
}

int main(void)
{
	if (has_status_page()) {
		report_missing(deeds[NEW_EVENT].question, "ioctl",
			       "programs register by themselves on Linux 6.4 and later");
		return EXIT_SUCCESS;
	}
	for (unsigned i = 0; i < DEEDS; i++) {
		sides[0][i].name = "native";
		sides[1][i].name = i < OTHER_IOCTL ? "bare kernel" : "with the guard alone";
	}
	if (fork() == 0) {
		enter_cgroup(cgroup);
		_exit(0);
	}
	measure_all(tracefs_file, sides[1], NEW_EVENT, OTHER_IOCTL);
	measure_with_policy(no_limits, false, sides[1], OTHER_IOCTL);
	measure_with_policy("[Daemon]\nDefaultMaxConnections=infinity\n[/bench-native]\nTenant=yes\nNative=yes\n"
			    "MaxEvents=32000\n",
			    true, sides[0], NEW_EVENT);
	for (unsigned i = 0; i < DEEDS; i++)
		report(deeds[i].question, "us", &sides[0][i], &sides[1][i], counted(deeds[i].aim));
	return EXIT_SUCCESS;
}
