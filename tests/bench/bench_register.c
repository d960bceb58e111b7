/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does the first registration of 1 to 10,000 new events by one program take, from its start until it may emit all of
 * them? Beside as many ioctls on a file of its own. As root, in a guest.
 */

#include "tests/bench/bench.h"

enum { EVENTS_MAX = 10000 };

static struct broker broker;
static char names[EVENTS_MAX][NAME_BYTES];
static unsigned n_events;
static bool others; /* of the same tenant, that were there before */

static void by_kernel(int prepared _unused_, unsigned number _unused_)
{
	direct_register_all(direct_open(), names, n_events);
}

static void by_broker(int prepared _unused_, unsigned number _unused_)
{
	broker_register(broker_open(&broker), calloc(n_events, sizeof(struct userev_event)), names, n_events);
}

/* By another program of the tenant: what it needs for its first event is there then, such as a process for its enablers. */
static int hold_one(void)
{
	static char name[1][NAME_BYTES];
	int holder = connect_to_broker(&broker);

	make_names(name, 1);
	ask_broker(holder, name, 1, NULL, NULL);
	return holder;
}

static double one_program(void (*work)(int, unsigned))
{
	struct programs program = { .n = 1, .work = work };
	int holder = others ? hold_one() : -1;
	double took;

	make_names(names, n_events);
	programs_start(&program);
	took = programs_run(&program);
	programs_stop(&program);
	if (holder >= 0)
		close(holder);
	broker_settle(&broker);
	return took;
}

static void compare(unsigned n, unsigned rounds)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "ioctls" };
	char question[96];

	n_events = n;
	for (unsigned i = 0; i < rounds; i++) {
		side_add(&theirs, one_program(by_kernel));
		side_add(&ours, one_program(by_broker));
	}
	snprintf(question, sizeof(question), "first registration of %u new events by one program%s", n,
		 others ? "" : ", the first of its tenant");
	report(question, "us", &ours, &theirs, n >= 100 && others ? 1.15 : 0);
	if (others) {
		point("register", ours.name, n, median(ours.value, rounds) / n);
		point("register", theirs.name, n, median(theirs.value, rounds) / n);
	}
}

int main(void)
{
	broker_start(&broker, NULL, no_limits);
	broker_describe(&broker);
	compare(1, pick(9, 3));
	compare(100, pick(5, 3));
	others = true;
	compare(1, pick(9, 3));
	compare(100, pick(5, 3));
	compare(1000, has_status_page() ? 1 : pick(5, 1));
	if (pick(1, 0) && !has_status_page())
		compare(EVENTS_MAX, 1);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
