/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a tracer take to turn an event on that 1,000 programs hold? Beside an event that as many registered themselves.
 * As root, in a guest.
 */

#include "tests/bench/bench.h"

static struct broker broker;
static char names[1][NAME_BYTES];

static void by_kernel(int prepared _unused_, unsigned number _unused_)
{
	direct_register_all(direct_open(), names, 1);
}

static void by_broker(int prepared _unused_, unsigned number _unused_)
{
	ask_broker(connect_to_broker(&broker), names, 1, NULL, NULL);
}

static void hold_and_switch(struct side *side, unsigned n, unsigned times, void (*work)(int, unsigned))
{
	struct programs programs = { .n = n, .work = work };

	make_names(names, 1);
	programs_start(&programs);
	programs_run(&programs);
	for (unsigned i = 0; i < times; i++) {
		side_add(side, direct_switch(name_of(names[0]), true));
		direct_switch(name_of(names[0]), false);
	}
	programs_stop(&programs);
	broker_settle(&broker);
}

static void compare(unsigned n)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "registered directly" };
	unsigned rounds = pick(3, 1), times = pick(7, 3);
	char question[96];

	for (unsigned i = 0; i < rounds; i++) {
		hold_and_switch(&ours, n, times, by_broker);
		hold_and_switch(&theirs, n, times, by_kernel);
	}
	snprintf(question, sizeof(question), "turning on an event that %u programs hold", n);
	report(question, "us", &ours, &theirs, 1);
	point("switch", ours.name, n, median(ours.value, ours.n));
	point("switch", theirs.name, n, median(theirs.value, theirs.n));
}

int main(void)
{
	raise_limits(FILES);
	broker_start(&broker, NULL, no_limits);
	compare(1);
	compare(pick(100, 200));
	if (pick(1, 0))
		compare(1000);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
