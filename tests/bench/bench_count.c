/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How many instructions in user space do daemon and keeper need for an event? Callgrind counts all instructions of a daemon and a
 * keeper from their start. The difference of two runs, in one of which a client asks for more, is the price of what it asks for.
 * As root, in a guest.
 */

#include "tests/bench/bench.h"

enum { EVENTS = 1000, SINGLE = 200, FEW = 1000, MANY = 30000, NAMES_MAX = MANY + 2 * EVENTS };

static struct broker broker;
static char names[NAMES_MAX][NAME_BYTES];

/* A client's requests: `before` + `events` new events in batches and `single` one by one; `again`: `events` by another client, too. */
struct run {
	unsigned before, events, single;
	bool again;
};

struct count {
	double daemon, keeper;
};

static void ask_one_by_one(int fd, char (*asked)[NAME_BYTES], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ask_broker(fd, asked + i, 1, NULL, NULL);
}

static struct count count(struct run run)
{
	struct count count;
	int first, second;

	broker = (struct broker){ .installed = true, .counted = true };
	broker_start(&broker);
	first = connect_to_broker(&broker);
	second = connect_to_broker(&broker);
	ask_broker(first, names, run.before + run.events, NULL, NULL);
	ask_one_by_one(first, names + run.before + run.events, run.single);
	if (run.again)
		ask_broker(second, names, run.events, NULL, NULL);
	broker_count(&broker, &count.daemon, &count.keeper);
	close(first);
	close(second);
	broker_stop(&broker);
	direct_settle();
	return count;
}

static struct count difference(struct count more, struct count less, unsigned n)
{
	return (struct count){ (more.daemon - less.daemon) / n, (more.keeper - less.keeper) / n };
}

static void report_count(const char *question, struct count each, struct count aim)
{
	report_value(question, "instructions", "daemon", each.daemon, aim.daemon);
	if (aim.keeper > 0)
		report_value(question, "instructions", "keeper", each.keeper, aim.keeper);
}

static void compare_sizes(const char *question, double with_many, double with_few)
{
	struct side many = { .name = "with 30,000" }, few = { .name = "with 1,000" };

	side_add(&many, with_many);
	side_add(&few, with_few);
	report(question, "instructions", &many, &few, 1.05);
}

/* With 30,000 events alive, which are registered twice under callgrind. */
static void with_many(struct count new_of_few, struct count leased_of_few)
{
	struct count less = count((struct run){ .before = MANY });
	struct count more = count((struct run){ .before = MANY, .events = EVENTS });
	struct count again = count((struct run){ .before = MANY, .events = EVENTS, .again = true });
	struct count new = difference(more, less, EVENTS), leased = difference(again, more, EVENTS);

	compare_sizes("a new event in a batch, user space, 30,000 alive: daemon", new.daemon, new_of_few.daemon);
	compare_sizes("a new event in a batch, user space, 30,000 alive: keeper", new.keeper, new_of_few.keeper);
	compare_sizes("an event that a sibling holds, in a batch, user space, 30,000 alive: daemon", leased.daemon,
		      leased_of_few.daemon);
}

int main(void)
{
	struct count less, more, again, single, new, leased;

	for (unsigned i = 0; i < NAMES_MAX; i++)
		snprintf(names[i], NAME_BYTES, "bench_count_%05u u32 number; u64 address; s64 duration", i);
	less = count((struct run){ .before = FEW });
	more = count((struct run){ .before = FEW, .events = EVENTS });
	again = count((struct run){ .before = FEW, .events = EVENTS, .again = true });
	single = count((struct run){ .before = FEW, .single = SINGLE });
	new = difference(more, less, EVENTS);
	leased = difference(again, more, EVENTS);
	report_count("a new event in a batch of 500, user space", new, (struct count){ 3700, 2500 });
	report_count("an event that a sibling holds, in a batch of 500, user space", leased, (struct count){ 1500, 0 });
	report_count("a request for one new event, user space", difference(single, less, SINGLE),
		     (struct count){ 6000, 4500 });
	if (pick(1, 0))
		with_many(new, leased);
	return EXIT_SUCCESS;
}
