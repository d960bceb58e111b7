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

static uint32_t remainder_of(uint32_t all, uint32_t part)
{
	return all > part ? all - part : 0;
}

uint32_t machine_room(const struct machine *machine)
{
	return remainder_of(machine_pool(machine), machine->common + quota_shared_used(machine->shared));
}

void machine_publish(struct machine *machine)
{
	quota_shared_allow(machine->shared, remainder_of(machine_pool(machine), machine->common));
}

void machine_share(struct machine *machine, struct quota_shared *shared)
{
	machine->shared = shared;
	machine_publish(machine);
}

void reserve_update(struct reserve *reserve)
{
	struct machine *machine = reserve->machine;
	/* Read once: MAX() reads twice, and it may change in between. */
	const uint32_t filled = reserve->filled + quota_shared_used(reserve->shared);

	quota_shared_allow(reserve->shared, remainder_of(reserve->maximum, reserve->filled));
	machine->claimed -= reserve->claimed;
	reserve->claimed = MAX(reserve->maximum, filled);
	machine->claimed += reserve->claimed;
	machine_publish(machine);
}

void reserve_share(struct reserve *reserve, struct quota_shared *shared)
{
	reserve->shared = shared;
	reserve_update(reserve);
}

struct reserve *reserve_new(struct machine *machine, uint32_t maximum)
{
	struct reserve *reserve = calloc(1, sizeof(*reserve));

	if (!reserve)
		return NULL;
	*reserve = (struct reserve){ .machine = machine, .maximum = maximum, .references = 1 };
	reserve_update(reserve);
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
	reserve->machine->claimed -= reserve->claimed;
	machine_publish(reserve->machine);
	reserve_unref(reserve->files);
	free(reserve);
	return NULL;
}

void reserve_set_maximum(struct reserve *reserve, uint32_t maximum)
{
	reserve->maximum = maximum;
	reserve_update(reserve);
}

bool reserve_has_room(const struct reserve *reserve)
{
	return reserve->filled + quota_shared_used(reserve->shared) < reserve->maximum;
}

void reserve_fill(struct reserve *reserve)
{
	assert(reserve->filled < reserve->maximum);
	reserve->filled++;
	reserve->machine->filled++;
	reserve_update(reserve);
}

void reserve_empty(struct reserve *reserve)
{
	assert(reserve->filled > 0);
	reserve->filled--;
	reserve->machine->filled--;
	reserve_update(reserve);
}
