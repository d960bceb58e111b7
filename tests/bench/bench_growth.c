/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does one more event cost when 10 to 30,000 are registered? Of a broker another program asks; beside one process that
 * registers all of them itself, on one file. As root, in a guest.
 */

#include "tests/bench/bench.h"

enum { MORE = 16, SAMPLES = 15, SAMPLES_OF_FEW = 5, EVENTS_MAX = 30000 };

static struct broker broker;
static struct userev *holder;
static struct userev_event *events;
static char (*names)[NAME_BYTES];
static unsigned held, held_directly;
static int data;

/* Each of 16 new events of another program. It stays connected, because the next program would wait for the release of its events. */
static double one_more(unsigned n)
{
	static char more[MORE][NAME_BYTES];
	double took[SAMPLES];
	unsigned samples = n < 1000 ? SAMPLES_OF_FEW : SAMPLES;

	for (unsigned i = 0; i < samples; i++) {
		int socket = connect_to_broker(&broker);
		double begin;

		make_names(more, MORE);
		begin = now();
		ask_broker(socket, more, MORE, NULL, NULL);
		took[i] = (now() - begin) / MORE;
	}
	return median(took, samples);
}

static void hold(unsigned n)
{
	if (n > held)
		broker_register(holder, events + held, names + held, n - held);
	held = n;
}

static double one_more_directly(void)
{
	static char more[MORE][NAME_BYTES];
	double took[MORE];

	make_names(more, MORE);
	for (unsigned i = 0; i < MORE; i++) {
		double begin = now();

		direct_register_all(data, more + i, 1);
		took[i] = now() - begin;
	}
	held_directly += MORE;
	return median(took, MORE);
}

static void by_kernel(int prepared _unused_, unsigned number _unused_)
{
	static char more[MORE][NAME_BYTES];

	make_names(more, MORE);
	direct_register_all(direct_open(), more, MORE);
}

/* By a program without other events: its costs grow with the events of the machine alone. */
static double one_more_alone(void)
{
	struct programs program = { .n = 1, .work = by_kernel };
	double took[SAMPLES];

	for (unsigned i = 0; i < SAMPLES; i++) {
		programs_start(&program);
		took[i] = programs_run(&program) / MORE;
		programs_stop(&program);
	}
	return median(took, SAMPLES);
}

static void hold_directly(unsigned n)
{
	static char some[1][NAME_BYTES];

	for (; held_directly < n; held_directly++) {
		make_names(some, 1);
		direct_register_all(data, some, 1);
	}
}

static void measure(unsigned n, struct side *ours, struct side *alone, struct side *theirs)
{
	hold(n);
	side_add(ours, one_more(n));
	side_add(alone, one_more_alone());
	hold_directly(n);
	side_add(theirs, one_more_directly());
	point("growth", ours->name, n, ours->value[0]);
	point("growth", theirs->name, n, theirs->value[0]);
}

/* Before 6.4 there is no room for both, and the keeper deletes events one by one: 10,000 take minutes. */
static unsigned most(void)
{
	return has_status_page() ? 1000 : pick(EVENTS_MAX, 1000);
}

int main(void)
{
	static const unsigned counts[] = { 10, 100, 1000, 10000, EVENTS_MAX };
	struct side ours[ARRAY_SIZE(counts)] = { 0 }, theirs[ARRAY_SIZE(counts)] = { 0 };
	struct side alone[ARRAY_SIZE(counts)] = { 0 };
	size_t last = 0;
	char question[96];

	broker_start(&broker);
	holder = broker_open(&broker);
	data = direct_open();
	events = calloc(EVENTS_MAX, sizeof(*events));
	names = calloc(EVENTS_MAX, sizeof(*names));
	make_names(names, EVENTS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(counts) && counts[i] <= most(); i++) {
		ours[i].name = "broker";
		theirs[i].name = "ioctl";
		alone[i].name = "ioctl of another program";
		measure(counts[i], &ours[i], &alone[i], &theirs[i]);
		snprintf(question, sizeof(question), "one more event, %u being registered", counts[i]);
		report(question, "us", &ours[i], &theirs[i], 0);
		last = i;
	}
	ours[1].name = "with 100";
	ours[last].name = "broker";
	snprintf(question, sizeof(question), "one more event, %u being registered, and 100", counts[last]);
	report(question, "us", &ours[last], &ours[1], 1.2);
	alone[1].name = "with 100";
	report("... the same by programs that have no other", "us", &alone[last], &alone[1], 0);
	theirs[1].name = "with 100";
	theirs[last].name = "ioctl";
	report("... the same directly", "us", &theirs[last], &theirs[1], 0);
	userev_close(holder);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
