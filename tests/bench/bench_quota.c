/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What a decision of the quota ledger costs with few tenants and events and with many, both in turn in the same run. A
 * decision is one event charged to a tenant and refunded, or refused. Prints medians and ratios; nothing here is a test.
 *
 * Of many, either the same few ask all the time, which shows what the ledger does; or each in its turn, which shows what the
 * processor's caches do, too.
 *
 *	bench_quota [ROUNDS]
 */

#include "daemon/charge.h"
#include "daemon/level.h"
#include "tests/bench/bench.h"

/* The next one is this much further on, so that the processor can't tell which it will be. */
enum { STRIDE = 7919 };

enum { ROUNDS_MAX = 101, DECISIONS = 200000, FEW = 10, MANY_TENANTS = 10000, MANY_EVENTS = 32000 };

static unsigned rounds = 15;

/* Tenants as in containers, each of which holds an event of its own; and more events that one tenant holds. */
struct world {
	struct machine machine;
	struct level *table;
	size_t n_tenants, n_events;
	struct level **tenant;
	struct quota_event *event;
	struct quota_charge *charge;
};

static void charge(struct world *world, size_t tenant, size_t event)
{
	struct quota_refusal refusal;

	quota_event_init(&world->event[event], &world->machine);
	if (quota_charge(&world->tenant[tenant]->own, &world->event[event], NULL, &world->charge[event], &refusal) != 0)
		fail("refused");
}

static struct world *world_new(size_t n_tenants, size_t n_events)
{
	struct world *world = calloc(1, sizeof(*world));

	if (!world)
		fail("calloc");
	world->n_tenants = n_tenants;
	world->n_events = n_events;
	world->tenant = calloc(n_tenants, sizeof(struct level *));
	world->event = calloc(n_events, sizeof(*world->event));
	world->charge = calloc(n_events, sizeof(*world->charge));
	if (!world->tenant || !world->event || !world->charge)
		fail("calloc");
	/* So large that all may, although there are so many. */
	machine_init(&world->machine, UINT32_MAX);
	for (size_t i = 0; i < n_tenants; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/machine.slice/%zu/container-%zu.scope", i % 7, i);
		if (level_get(&world->table, path, &world->tenant[i]) < 0)
			fail("level_get");
	}
	for (size_t i = 0; i < n_events; i++)
		charge(world, i % n_tenants, i);
	return world;
}

static void world_free(struct world *world)
{
	for (size_t i = 0; i < world->n_events; i++)
		quota_charge_deinit(&world->charge[i]);
	for (size_t i = 0; i < world->n_tenants; i++)
		level_unref(world->tenant[i]);
	machine_deinit(&world->machine);
	free(world->charge);
	free(world->event);
	free(world->tenant);
	free(world);
}

/* A new event for each of the first `askers` tenants in turn: nanoseconds each. */
static double decide_for(struct world *world, size_t askers)
{
	struct quota_charge receipt = { 0 };
	struct quota_refusal refusal;
	struct quota_event event;
	double start = now();
	size_t tenant = 0;

	quota_event_init(&event, &world->machine);
	for (size_t i = 0; i < DECISIONS; i++) {
		quota_charge(&world->tenant[tenant]->own, &event, NULL, &receipt, &refusal);
		quota_charge_deinit(&receipt);
		tenant = (tenant + STRIDE) % askers;
	}
	return (now() - start) * 1e3 / DECISIONS;
}

/* Likewise each of the first `asked` events, which others have, for one tenant that has none of them. */
static double decide_about(struct world *world, size_t asked)
{
	struct quota_charge receipt = { 0 };
	struct quota_refusal refusal;
	struct level *asker = NULL;
	size_t event = 0;
	double start;

	if (level_get(&world->table, "/machine.slice/0/asker.scope", &asker) < 0)
		fail("level_get");
	start = now();
	for (size_t i = 0; i < DECISIONS; i++) {
		quota_charge(&asker->own, &world->event[event], NULL, &receipt, &refusal);
		quota_charge_deinit(&receipt);
		event = (event + STRIDE) % asked;
	}
	start = (now() - start) * 1e3 / DECISIONS;
	level_unref(asker);
	return start;
}

typedef double measure(struct world *, size_t n);

static void report(const char *question, measure *decide, struct world *many, size_t n_many, struct world *few)
{
	double among_many[ROUNDS_MAX], among_few[ROUNDS_MAX];
	double many_cost, few_cost;

	for (unsigned i = 0; i < rounds; i++) {
		among_few[i] = decide(few, FEW);
		among_many[i] = decide(many, n_many);
	}
	many_cost = median(among_many, rounds);
	few_cost = median(among_few, rounds);
	printf("%-58s %9.1f %9.1f  %7.3f  [%.1f to %.1f, %.1f to %.1f]\n", question, many_cost, few_cost,
	       many_cost / few_cost, among_many[0], among_many[rounds - 1], among_few[0], among_few[rounds - 1]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct world *few, *many_tenants, *many_events;

	if (argc > 1)
		rounds = (unsigned)strtoul(argv[1], NULL, 10);
	if (rounds == 0 || rounds > ROUNDS_MAX)
		rounds = 15;
	few = world_new(FEW, FEW);
	many_tenants = world_new(MANY_TENANTS, MANY_TENANTS);
	many_events = world_new(FEW, MANY_EVENTS);
	printf("a decision of the quota ledger, medians of %u rounds\n", rounds);
	printf("%-58s %9s %9s  %7s\n", "", "many", "few", "ratio");
	report("10,000 tenants, the same 10 ask, ns (few: 10)", decide_for, many_tenants, FEW, few);
	report("10,000 tenants, each asks in its turn, ns (few: 10)", decide_for, many_tenants, MANY_TENANTS, few);
	report("32,000 events, a new one, ns (few: 10)", decide_for, many_events, FEW, few);
	report("32,000 events, the same 10 are asked for, ns (few: 10)", decide_about, many_events, FEW, few);
	report("32,000 events, each in its turn, ns (few: 10)", decide_about, many_events, MANY_EVENTS, few);
	/* From now on nothing is left. */
	few->machine.capacity = many_tenants->machine.capacity = many_events->machine.capacity = FEW;
	report("refused: 10,000 tenants, the same 10 ask, ns (few: 10)", decide_for, many_tenants, FEW, few);
	report("refused: 32,000 events, a new one, ns (few: 10)", decide_for, many_events, FEW, few);
	world_free(many_events);
	world_free(many_tenants);
	world_free(few);
	return EXIT_SUCCESS;
}
