/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does a decision of the quota ledger cost with few tenants and events, and with many? A decision is one event charged to
 * a tenant and refunded, or refused. Of many, either the same few ask all the time, which shows what the ledger does; or each
 * in its turn, which shows what the processor's caches do, too.
 */

#include "daemon/quota/charge.h"
#include "daemon/quota/level.h"
#include "tests/bench/bench.h"

/* The next one is this much further on, so that the processor can't tell which it will be. */
enum { STRIDE = 7919 };

enum { DECISIONS = 100000, FEW = 10, MANY_TENANTS = 10000, MANY_EVENTS = 32000 };

/* Flat. */
#define AIM 1.2

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

	world->event[event] = (struct quota_event){ .machine = &world->machine };
	if (quota_charge(&world->tenant[tenant]->own[RESOURCE_EVENTS], &world->event[event], NULL,
			 &world->charge[event], &refusal) != 0)
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
	world->machine = (struct machine){ .capacity = UINT32_MAX };
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
	double begin = now();
	size_t tenant = 0;

	event = (struct quota_event){ .machine = &world->machine };
	for (size_t i = 0; i < DECISIONS; i++) {
		quota_charge(&world->tenant[tenant]->own[RESOURCE_EVENTS], &event, NULL, &receipt, &refusal);
		quota_charge_deinit(&receipt);
		tenant = (tenant + STRIDE) % askers;
	}
	return (now() - begin) * 1e3 / DECISIONS;
}

/* Likewise each of the first `asked` events, which others have, for one tenant that has none of them. */
static double decide_about(struct world *world, size_t asked)
{
	struct quota_charge receipt = { 0 };
	struct quota_refusal refusal;
	struct level *asker = NULL;
	size_t event = 0;
	double begin;

	if (level_get(&world->table, "/machine.slice/0/asker.scope", &asker) < 0)
		fail("level_get");
	begin = now();
	for (size_t i = 0; i < DECISIONS; i++) {
		quota_charge(&asker->own[RESOURCE_EVENTS], &world->event[event], NULL, &receipt, &refusal);
		quota_charge_deinit(&receipt);
		event = (event + STRIDE) % asked;
	}
	begin = (now() - begin) * 1e3 / DECISIONS;
	level_unref(asker);
	return begin;
}

typedef double measure(struct world *, size_t n);

static void ask(const char *question, measure *decide, struct world *many, size_t n_many, struct world *few, double aim)
{
	struct side among_many = { .name = "many" }, among_few = { .name = "ten" };
	unsigned rounds = pick(25, 9);

	for (unsigned i = 0; i < rounds; i++) {
		side_add(&among_few, decide(few, FEW));
		side_add(&among_many, decide(many, n_many));
	}
	report(question, "ns", &among_many, &among_few, aim);
}

/* One event for each tenant: the number of tenants grows. */
static void draw(size_t tenants)
{
	struct world *world = world_new(tenants, tenants);
	double took[9], took_in_turn[9];

	for (size_t i = 0; i < ARRAY_SIZE(took); i++) {
		took[i] = decide_for(world, FEW);
		took_in_turn[i] = decide_for(world, tenants);
	}
	point("quota", "the same 10 ask", (double)tenants, median(took, ARRAY_SIZE(took)));
	point("quota", "each in its turn", (double)tenants, median(took_in_turn, ARRAY_SIZE(took)));
	world_free(world);
}

int main(void)
{
	struct world *few = world_new(FEW, FEW);
	struct world *tenants = world_new(MANY_TENANTS, MANY_TENANTS);
	struct world *events = world_new(FEW, MANY_EVENTS);

	ask("quota decision, 10,000 tenants: the same 10 ask", decide_for, tenants, FEW, few, AIM);
	ask("quota decision, 10,000 tenants: each in its turn", decide_for, tenants, MANY_TENANTS, few, 0);
	ask("quota decision, 32,000 events: a new one", decide_for, events, FEW, few, AIM);
	ask("quota decision, 32,000 events: the same 10 are asked for", decide_about, events, FEW, few, AIM);
	ask("quota decision, 32,000 events: each in its turn", decide_about, events, MANY_EVENTS, few, 0);
	/* From now on nothing is left. */
	few->machine.capacity = tenants->machine.capacity = events->machine.capacity = FEW;
	ask("quota refusal, 10,000 tenants: the same 10 ask", decide_for, tenants, FEW, few, AIM);
	ask("quota refusal, 32,000 events: a new one", decide_for, events, FEW, few, AIM);
	world_free(events);
	world_free(tenants);
	world_free(few);
	for (size_t n = FEW; n <= MANY_TENANTS; n *= 10)
		draw(n);
	return EXIT_SUCCESS;
}
