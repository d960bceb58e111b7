/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Programs of root register events, too. These foreign events can't be refused, so they reduce the capacity. The types of user
 * events are numbered together with all other types of the kernel: a margin of types is left for these.
 *
 * The kernel does not report foreign events, and counting them is expensive when there are many. So they are counted at the
 * start, when an admin asks, and when there is little room left. A timer counts them only while there are unguarded data
 * files, since their clients could make such events, too.
 */

#include "daemon/registry/capacity.h"

#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"

enum { KERNEL_TYPES = 64900 }; /* "about": see kernel/user_events/enable_address.c */

static bool is_ours_alone(const struct registry *registry)
{
	return registry->kernel->facts.backend == BACKEND_EMBEDDED;
}

uint32_t capacity_count_native(const struct registry *registry)
{
	const struct level *root = level_find(&registry->levels, "/", 1);

	return root ? quota_shared_used(root->quota[RESOURCE_EVENTS].shared) : 0;
}

static void capacity_set(struct registry *registry)
{
	uint32_t margin = policy_daemon(registry->policy, POLICY_KERNEL_MARGIN)->number;
	uint32_t types = margin < KERNEL_TYPES ? KERNEL_TYPES - margin : 0;
	uint32_t most = MIN(registry->kernel_maximum, types);

	/* A capacity that was set by an option is for our events alone. */
	if (is_ours_alone(registry) || registry->options->capacity)
		registry->machine.capacity = registry->kernel->facts.capacity;
	else
		registry->machine.capacity = most > registry->foreign ? most - registry->foreign : 0;
	machine_publish(&registry->machine);
}

/*
 * Events that are being registered may be in the kernel's list or not, as may events that came or went while it was read. So
 * there is a least and a most number of foreign events.
 */
static void capacity_on_answer(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct registry *registry = data;
	struct foreign_count *count = &registry->others;
	const uint32_t theirs = call->number < call->index ? call->index - (uint32_t)call->number : 0;
	const uint32_t ours = registry->n_events, most = MAX(ours, count->ours), least = MIN(ours, count->ours);
	const uint32_t surely_ours = least - MIN(least, count->was_registering);
	const uint32_t native = capacity_count_native(registry); /* read once: see reserve_update() */
	struct tenant *tenant;

	registry->looking = false;
	if (call->result == KERNEL_OK) {
		/* Events that are being registered may not be in the list yet. */
		registry->foreign = call->index > ours ? call->index - ours : 0;
		/* Native events are counted where they are charged. */
		registry->foreign -= MIN(registry->foreign, native);
		registry->kernel_maximum = call->bit;
		count->least = theirs > most ? theirs - most : 0;
		count->most = theirs > surely_ours ? theirs - surely_ours : 0;
		LIST_FOREACH(tenant, &registry->unwatched, in_unwatched)
			tenant->foreign_before = MIN(tenant->foreign_before, count->most);
		capacity_set(registry);
	}
	free(call);
}

static void capacity_ask(struct registry *registry)
{
	struct kernel_call *call = registry->looking ? NULL : malloc(sizeof(*call));

	if (!call)
		return;
	registry->looking = true;
	registry->looked = clock_now();
	registry->others.ours = registry->n_events;
	registry->others.was_registering = registry->others.registering;
	*call = (struct kernel_call){ .op = KERNEL_LOOK, .fd = -1 };
	kernel_submit(registry->kernel, call, 1, capacity_on_answer, registry);
}

void capacity_look(struct registry *registry)
{
	/* The policy's margin counts at once. */
	capacity_set(registry);
	if (!is_ours_alone(registry) && clock_now() - registry->looked >= LOOK_INTERVAL)
		capacity_ask(registry);
}

void capacity_note(struct registry *registry, bool refused)
{
	if (refused || machine_room(&registry->machine) < machine_pool(&registry->machine) / 8)
		capacity_look(registry);
}

static void capacity_on_maximum_set(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct registry *registry = data;

	if (call->result == KERNEL_OK)
		log_notice("kernel.user_events_max is %u now: the sum of all maxima and a margin", call->index);
	else
		log_warning("kernel.user_events_max can't be set: %s",
			    strerror(call->result < 0 ? -call->result : EOPNOTSUPP));
	free(call);
	capacity_ask(registry);
}

/* At the start only: lowering it later would refuse events that are being registered. */
static void set_kernel_maximum(struct registry *registry)
{
	uint64_t sum = policy_sum_maxima(registry->policy);
	struct kernel_call *call = sum > 0 ? malloc(sizeof(*call)) : NULL;

	if (!call) {
		log_warning("SetKernelMaximum=yes: no section has a MaxEvents= or ReserveEvents= to add up");
		capacity_ask(registry);
		return;
	}
	sum += policy_daemon(registry->policy, POLICY_KERNEL_MARGIN)->number;
	*call = (struct kernel_call){
		.op = KERNEL_SET_MAXIMUM,
		.index = (uint32_t)MIN(sum, (uint64_t)KERNEL_TYPES),
		.fd = -1,
	};
	/* Takes effect at once, since the policy is checked next: its reserves may need the new maximum. */
	if (registry->kernel->facts.backend == BACKEND_ENABLE_ADDRESS) {
		registry->kernel_maximum = call->index;
		capacity_set(registry);
	}
	kernel_submit(registry->kernel, call, 1, capacity_on_maximum_set, registry);
}

void capacity_init(struct registry *registry)
{
	registry->kernel_maximum = registry->kernel->facts.capacity;
	/* Until it is known, any number has been there before. */
	registry->others.most = UINT32_MAX;
	capacity_set(registry);
	if (is_ours_alone(registry))
		return;
	if (policy_daemon(registry->policy, POLICY_SET_KERNEL_MAXIMUM)->number)
		set_kernel_maximum(registry);
	else
		capacity_ask(registry);
}
