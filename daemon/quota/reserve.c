/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Reserves partition the machine: the number that they claim is not available to others, whether it is filled or not; the
 * rest is the common pool. So a reserve can always be filled, and nothing has to be taken back from other tenants.
 *
 * The same event in a reserve and in the pool, or in two reserves, takes a place in each of them, although the kernel has it
 * once: otherwise a tenant could take away another's place by releasing its own.
 *
 * A smaller capacity, or a larger reserve, can leave the pool with less room than is used. Then nothing is added until enough
 * is released.
 */

#include "daemon/quota/reserve.h"

#include <assert.h>

void machine_deinit(struct machine *machine)
{
	assert(machine->common == 0);
	assert(machine->filled == 0);
	assert(machine->claimed == 0);
	*machine = (struct machine){ 0 };
}

uint32_t machine_pool(const struct machine *machine)
{
	return machine->capacity > machine->claimed ? machine->capacity - (uint32_t)machine->claimed : 0;
}

uint32_t machine_room(const struct machine *machine)
{
	uint32_t pool = machine_pool(machine);

	return pool > machine->common ? pool - machine->common : 0;
}

static uint32_t claims(const struct reserve *reserve)
{
	return MAX(reserve->maximum, reserve->filled);
}

struct reserve *reserve_new(struct machine *machine, uint32_t maximum)
{
	struct reserve *reserve = calloc(1, sizeof(*reserve));

	if (!reserve)
		return NULL;
	*reserve = (struct reserve){ .machine = machine, .maximum = maximum, .references = 1 };
	machine->claimed += maximum;
	return reserve;
}

struct reserve *reserve_ref(struct reserve *reserve)
{
	reserve->references++;
	return reserve;
}

struct reserve *reserve_unref(struct reserve *reserve)
{
	if (!reserve || --reserve->references > 0)
		return NULL;
	assert(reserve->filled == 0);
	reserve->machine->claimed -= reserve->maximum;
	reserve_unref(reserve->files);
	free(reserve);
	return NULL;
}

void reserve_set_maximum(struct reserve *reserve, uint32_t maximum)
{
	reserve->machine->claimed -= claims(reserve);
	reserve->maximum = maximum;
	reserve->machine->claimed += claims(reserve);
}

bool reserve_has_room(const struct reserve *reserve)
{
	return reserve->filled < reserve->maximum;
}

void reserve_fill(struct reserve *reserve)
{
	assert(reserve_has_room(reserve));
	reserve->filled++;
	reserve->machine->filled++;
}

void reserve_empty(struct reserve *reserve)
{
	assert(reserve->filled > 0);
	reserve->machine->claimed -= claims(reserve);
	reserve->filled--;
	reserve->machine->claimed += claims(reserve);
	reserve->machine->filled--;
}
