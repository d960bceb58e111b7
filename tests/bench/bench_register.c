/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does the first registration of 1 to 10,000 new events by one program take, from its start until it may emit all of
 * them? Beside as many ioctls on a file of its own. As root, in a guest, bare and as installed.
 */

#include "tests/bench/bench.h"

enum { EVENTS_MAX = 10000 };

static struct broker broker;
static char names[EVENTS_MAX][NAME_BYTES];
static unsigned n_events;
static bool others; /* another program of the tenant holds an event */

static void by_kernel(int prepared _unused_, unsigned number _unused_)
{
	direct_register_all(direct_open(), names, n_events);
}

static void by_broker(int prepared _unused_, unsigned number _unused_)
{
	broker_register(broker_open(&broker), calloc(n_events, sizeof(struct userev_event)), names, n_events);
}

/* In another program of the tenant: its first event needs a page and an enabler, which are there then. */
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

struct count {
	unsigned events, rounds, quick_rounds;
	double aim;
};

static void compare(const struct count *count)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "ioctls" };
	unsigned rounds = pick(count->rounds, count->quick_rounds);
	char question[128];

	n_events = count->events;
	for (unsigned i = 0; i < rounds; i++) {
		side_add(&theirs, one_program(by_kernel));
		side_add(&ours, one_program(by_broker));
	}
	snprintf(question, sizeof(question), "first registration of %u new events by one program%s%s", n_events,
		 others ? "" : ", the first of its tenant", broker.installed ? ", as installed" : "");
	report(question, "us", &ours, &theirs, others && !broker.installed ? count->aim : 0);
	if (others) {
		const char *series = broker.installed ? "as installed" : ours.name;

		point("register", series, n_events, median(ours.value, rounds) / n_events);
		point("register", theirs.name, n_events, median(theirs.value, rounds) / n_events);
	}
}

/* Before 6.4 the kernel takes minutes to delete 10,000 events. With QUICK they are registered without a guard, which costs a constant for each. */
static void compare_all(bool installed)
{
	static const struct count counts[] = {
		{ 1, 9, 3, 4.5 }, { 100, 5, 2, 1.5 }, { 1000, 5, 2, 1.05 }, { EVENTS_MAX, 2, 1, 0.4 }
	};
	unsigned n = has_status_page() || (installed && pick(0, 1)) ? 3 : (unsigned)ARRAY_SIZE(counts);

	broker = (struct broker){ .installed = installed };
	broker_start(&broker);
	others = false;
	for (unsigned i = 0; i < 2 && pick(1, 0); i++)
		compare(&counts[i]);
	others = true;
	/* The first one waits for files of programs that the keeper starts. */
	n_events = 1;
	one_program(by_broker);
	for (unsigned i = 0; i < n; i++)
		compare(&counts[i]);
	broker_stop(&broker);
}

int main(void)
{
	compare_all(false);
	compare_all(true);
	return EXIT_SUCCESS;
}
