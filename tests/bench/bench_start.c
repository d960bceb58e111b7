/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a program with one event take from connect() until it may emit, and what takes how long? Beside three empty round
 * trips, and where the kernel has user_events beside open() and ioctl(). Another program of the tenant holds the event, or it is new.
 * In guests also as installed, and for tenants at several depths of the cgroup tree.
 */

#include <signal.h>
#include <sys/mman.h>

#include "tests/bench/bench.h"

/* The kernel deletes an event slowly. */
enum { TIMES = 100, TIMES_IN_GUEST = 12, TRIPS = 3 };

enum part { CONNECT, HELLO, MAP, REGISTER, N_PARTS };

static const char *const part_names[] = { "connect()", "HELLO to WELCOME", "mapping the page",
					  "REGISTER to REGISTERED" };

static struct broker broker;
static struct echo echo;

static double measured(double *begin)
{
	double before = *begin;

	*begin = now();
	return *begin - before;
}

/* To a socket at which no server accepts. */
static double bare_connect(void)
{
	static struct echo deaf;
	double begin;
	int fd;

	if (!*deaf.path) {
		echo_start(&deaf);
		kill(deaf.pid, SIGSTOP);
	}
	begin = now();
	fd = dial(deaf.path);
	begin = now() - begin;
	close(fd);
	return begin;
}

/* By packets. The daemon identifies a client between connect() and HELLO, or after HELLO: that is a part of the second part. */
static void start_in_parts(char (*names)[NAME_BYTES], double *ret)
{
	double begin;
	int fd, page, stream = -1;
	void *mapped;

	ret[CONNECT] = bare_connect();
	broker_rest(&broker);
	begin = now();
	fd = dial(broker.socket);
	greet(fd, &page);
	ret[HELLO] = measured(&begin) - ret[CONNECT];
	mapped = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ret[MAP] = measured(&begin);
	ask_broker(fd, names, 1, &stream, NULL);
	ret[REGISTER] = measured(&begin);
	munmap(mapped, WIRE_PAGE_BYTES);
	close(page);
	close(stream);
	close(fd);
}

static double start_with_library(char (*names)[NAME_BYTES])
{
	struct userev_event event = { 0 };
	double begin = now();
	struct userev *userev = broker_open(&broker);

	broker_register(userev, &event, names, 1);
	begin = now() - begin;
	userev_close(userev);
	return begin;
}

static double start_directly(char (*names)[NAME_BYTES])
{
	static uint32_t word;
	double begin = now();
	int data = direct_open();

	direct_register(data, names[0], &word);
	begin = now() - begin;
	direct_close(data, &word);
	return begin;
}

static double empty_trips(void)
{
	double begin = now();
	int fd = dial(echo.path);

	for (unsigned i = 0; i < TRIPS; i++)
		echo_trip(fd);
	begin = now() - begin;
	close(fd);
	return begin;
}

/* A way in which the broker and its client run. */
struct setting {
	const char *name;
	bool is_new;
	bool installed;
	const char *cgroup;
	double aim; /* beside three empty trips; 0: none */
};

struct starts {
	struct side library, direct, empty, part[N_PARTS];
};

/* The same event again, or a new one when the kernel has deleted the last one; and nothing is left to do for the broker. */
static char (*name_for(bool is_new, char (*names)[NAME_BYTES]))[NAME_BYTES]
{
	if (is_new) {
		make_names(names, 1);
		if (has_user_events())
			direct_settle();
	}
	broker_rest(&broker);
	return names;
}

/* Medians of many starts. */
static void measure_round(struct starts *starts, bool is_new)
{
	static double library[TIMES], direct[TIMES], empty[TIMES], part[N_PARTS][TIMES];
	static char names[1][NAME_BYTES];
	unsigned times = has_user_events() ? pick(TIMES_IN_GUEST, 4) : pick(TIMES, 20);
	double parts[N_PARTS];
	int holder = connect_to_broker(&broker);

	/* The tenant has a page and an enabler then, so that they are not measured with a new event. */
	make_names(names, 1);
	ask_broker(holder, names, 1, NULL, NULL);
	for (unsigned i = 0; i < times; i++) {
		library[i] = start_with_library(name_for(is_new, names));
		broker_rest(&broker);
		empty[i] = empty_trips();
		start_in_parts(name_for(is_new, names), parts);
		for (unsigned p = 0; p < N_PARTS; p++)
			part[p][i] = parts[p];
		if (has_user_events())
			direct[i] = start_directly(name_for(is_new, names));
	}
	close(holder);
	side_add(&starts->library, median(library, times));
	side_add(&starts->direct, median(direct, times));
	side_add(&starts->empty, median(empty, times));
	for (unsigned p = 0; p < N_PARTS; p++)
		side_add(&starts->part[p], median(part[p], times));
}

static void report_part(struct starts *starts, const struct setting *setting, enum part part, double aim)
{
	char question[128];

	starts->part[part].name = "packets by hand";
	snprintf(question, sizeof(question), "... of that %s%s", part_names[part], setting->name);
	report(question, "us", &starts->part[part], NULL, aim);
}

static void report_all(struct starts *starts, const struct setting *setting)
{
	const double hello = counted(setting->installed ? 75 : 60);
	char question[128];

	snprintf(question, sizeof(question), "start of a program with 1 %s%s",
		 setting->is_new ? "new event" : "event that another holds", setting->name);
	report(question, "us", &starts->library, &starts->empty, setting->aim);
	if (has_user_events())
		report(question, "us", &starts->library, &starts->direct, 0);
	for (enum part part = 0; part < N_PARTS; part++)
		if (part == HELLO || !*setting->cgroup)
			report_part(starts, setting, part, part == HELLO ? hello : 0);
}

/* A process of its own, because it enters the tenant's cgroup. */
static void measure(const struct setting *setting)
{
	struct starts starts = { .library = { .name = "libuserev" },
				 .direct = { .name = "open + ioctl" },
				 .empty = { .name = "connect, 3 empty trips" } };
	unsigned rounds = has_user_events() ? 3 : pick(5, 3);
	pid_t pid = fork();

	if (pid != 0) {
		finish(pid, 0);
		return;
	}
	if (*setting->cgroup)
		enter_cgroup(setting->cgroup);
	for (unsigned i = 0; i < rounds; i++)
		measure_round(&starts, setting->is_new);
	report_all(&starts, setting);
	exit(EXIT_SUCCESS);
}

static void pin_all(void)
{
	pid_t pids[2] = { broker.daemon };
	unsigned n = process_family(pids, 1, ARRAY_SIZE(pids));

	for (unsigned i = 0; i < n; i++)
		process_pin(pids[i], 1);
	process_pin(echo.pid, 1);
	process_pin(0, 0);
}

static void measure_settings(bool installed, const struct setting *settings, unsigned n)
{
	broker = (struct broker){ .installed = installed };
	broker_start(&broker);
	if (!installed)
		broker_describe(&broker);
	for (unsigned i = 0; i < n; i++)
		measure(&settings[i]);
}

int main(void)
{
	static const struct setting bare[] = {
		{ "", false, false, "", 1.6 },
		{ "", true, false, "", 0 },
		{ ", tenant at depth 3", false, false, "/pod/container", 1.6 },
		{ ", tenant at depth 5", false, false, "/slice/service/pod/container", 1.6 },
	};
	static const struct setting installed[] = {
		{ ", as installed", false, true, "", 0 },
		{ ", as installed", true, true, "", 0 },
		{ ", as installed, tenant at depth 3", false, true, "/pod/container", 0 },
		{ ", as installed, tenant at depth 5", false, true, "/slice/service/pod/container", 0 },
	};
	static const struct setting side_by_side = { ", on two processors", false, false, "", 0 };

	echo_start(&echo);
	if (has_user_events()) {
		measure_settings(false, bare, ARRAY_SIZE(bare));
		broker_stop(&broker);
		measure_settings(true, installed, ARRAY_SIZE(installed));
	} else {
		measure_settings(false, bare, 2);
		if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
			pin_all();
			measure(&side_by_side);
		}
	}
	broker_stop(&broker);
	echo_stop(&echo);
	return EXIT_SUCCESS;
}
