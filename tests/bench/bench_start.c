/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a program with one event take from connect() until it may emit, and where does the time go? Beside three round
 * trips of nothing, and where the kernel has user_events beside open() and ioctl(). The event is one that nobody has, and one
 * that another program of the same tenant holds.
 */

#include <sys/mman.h>

#include "tests/bench/bench.h"

/* What is new takes long to go again in a guest. */
enum { TIMES = 200, TIMES_IN_GUEST = 12, TRIPS = 3 };

enum part { CONNECT, HELLO, MAP, REGISTER, N_PARTS };

static const char *const part_names[] = { "connect()", "HELLO and WELCOME", "mapping the page",
					  "REGISTER and REGISTERED" };

static struct broker broker;
static struct echo echo;

static double measured(double *begin)
{
	double before = *begin;

	*begin = now();
	return *begin - before;
}

/* By packets, in parts; their sum. */
static double start_in_parts(char (*names)[NAME_BYTES], double *ret)
{
	double begin = now(), first = begin;
	int fd, page, stream = -1;
	void *mapped;

	fd = dial(broker.socket);
	ret[CONNECT] = measured(&begin);
	greet(fd, &page);
	ret[HELLO] = measured(&begin);
	mapped = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ret[MAP] = measured(&begin);
	ask_broker(fd, names, 1, &stream, NULL);
	ret[REGISTER] = measured(&begin);
	munmap(mapped, WIRE_PAGE_BYTES);
	close(page);
	close(stream);
	close(fd);
	return begin - first;
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

/* Medians of many. */
struct starts {
	struct side library, direct, empty, part[N_PARTS];
};

/* One that nobody has had, when the one before is gone, or the same as before. */
static char (*name_for(bool is_new, char (*names)[NAME_BYTES]))[NAME_BYTES]
{
	if (is_new) {
		make_names(names, 1);
		if (has_user_events())
			direct_settle();
	}
	return names;
}

static void measure_round(struct starts *starts, bool is_new, bool with_kernel)
{
	static double library[TIMES], direct[TIMES], empty[TIMES], part[N_PARTS][TIMES];
	static char names[1][NAME_BYTES];
	unsigned times = with_kernel ? pick(TIMES_IN_GUEST, 4) : pick(TIMES, 40);
	double parts[N_PARTS];
	int holder = connect_to_broker(&broker);

	/* Of what is new, too, so that the tenant has what it needs for its first event. */
	make_names(names, 1);
	ask_broker(holder, names, 1, NULL, NULL);
	for (unsigned i = 0; i < times; i++) {
		library[i] = start_with_library(name_for(is_new, names));
		empty[i] = empty_trips();
		start_in_parts(name_for(is_new, names), parts);
		for (unsigned p = 0; p < N_PARTS; p++)
			part[p][i] = parts[p];
		direct[i] = with_kernel ? start_directly(name_for(is_new, names)) : 0;
	}
	close(holder);
	side_add(&starts->library, median(library, times));
	side_add(&starts->direct, median(direct, times));
	side_add(&starts->empty, median(empty, times));
	for (unsigned p = 0; p < N_PARTS; p++)
		side_add(&starts->part[p], median(part[p], times));
}

static void measure(bool is_new)
{
	struct starts starts = { .library = { .name = "libuserev" },
				 .direct = { .name = "open + ioctl" },
				 .empty = { .name = "connect, 3 empty trips" } };
	const char *what =
		is_new ? "start of a program with 1 new event" : "start of a program with 1 event that another holds";
	bool with_kernel = has_user_events();
	unsigned rounds = with_kernel ? pick(3, 1) : pick(7, 3);
	char question[128];

	for (unsigned i = 0; i < rounds; i++)
		measure_round(&starts, is_new, with_kernel);
	report(what, "us", &starts.library, &starts.empty, 1);
	if (with_kernel)
		report(what, "us", &starts.library, &starts.direct, 0);
	for (unsigned p = 0; p < N_PARTS; p++) {
		starts.part[p].name = "packets by hand";
		snprintf(question, sizeof(question), "... of that %s", part_names[p]);
		report(question, "us", &starts.part[p], NULL, 0);
	}
}

int main(void)
{
	broker_start(&broker, NULL, no_limits);
	echo_start(&echo);
	broker_describe(&broker);
	measure(false);
	measure(true);
	echo_stop(&echo);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
