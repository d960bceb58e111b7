/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How one more event is admitted, in this order:
 *
 *   1. Every node from the tenant up to the root stays within its maximum.
 *   2. A reserve of the tenant that has room is filled. Nothing else is asked then.
 *   3. An event that a tenant has without a reserve is in the machine's common pool already, and costs it nothing: a tenant
 *      that pays for no more than an equal part may have it, too.
 *   4. The pool has room, and every node from the tenant up to below the root keeps to its fair share. Then the tenant pays
 *      for the event.
 *
 * The fair share is dbus-broker's. Of n siblings that pay for something, and `remaining` places that are left to them all, one
 * that pays for `share` may take one more if its whole is no more than one of n + 1 equal parts of its share and the
 * rest: share + 1 <= (share + remaining) / (n + 1), so
 *
 *	(n + 1) * (share + 1) - share <= remaining
 *
 * Each sibling that takes all it can leaves a part for the next: of C places the first gets C/2, the second C/6, the third
 * C/12, and about √C find room. `remaining` is the smallest room at any level above, and in the pool; on the way up it
 * is enough to compare each level's room with the most that was needed below it.
 *
 * Nodes with a maximum of their own take no part in the fair share: the admin has decided about them.
 *
 * When the paying tenant releases an event that others still hold, the charge moves to one of them. It cannot be refused, since
 * the pool does not change. It can put that tenant above its fair share: then the tenant gets no further event until there is
 * room again, not even one that is in the pool already. Otherwise two tenants that take turns could fill the whole pool.
 */

#include "daemon/quota/charge.h"

#include <assert.h>

void quota_event_deinit(struct quota_event *event)
{
	assert(LIST_EMPTY(&event->common));
	*event = (struct quota_event){ 0 };
}

static struct reserve *charge_find_reserve(const struct quota_reserves *reserves)
{
	for (size_t i = 0; reserves && i < reserves->n; i++) {
		struct reserve *reserve = reserves->reserve[i];

		if (reserves->are_of_files)
			reserve = reserve->files;
		if (reserve_has_room(reserve))
			return reserve;
	}
	return NULL;
}

/* The room that one more event at this node has to find, so that its siblings keep their fair share. */
static uint64_t needed_for_new(const struct quota *quota)
{
	return ((uint64_t)quota->parent->sharing + 1) * ((uint64_t)quota->paid + 1) - quota->paid;
}

/* The room at which the node's present share is one of n + 1 equal parts. */
static uint64_t needed_for_old(const struct quota *quota)
{
	uint64_t whole = ((uint64_t)quota->parent->sharing + 1) * quota->paid;

	return whole > quota->parent->paid ? whole - quota->parent->paid : 0;
}

static int check_shares(const struct quota *quota, const struct quota_event *event, struct quota_refusal *ret)
{
	uint64_t (*needed_for)(const struct quota *) = LIST_EMPTY(&event->common) ? needed_for_new : needed_for_old;
	struct quota_refusal most = { 0 };

	for (; quota->parent; quota = quota->parent) {
		uint64_t needed = quota->has_own_maximum ? 0 : needed_for(quota);
		uint32_t pool = quota->parent->parent ? UINT32_MAX : machine_room(event->machine);

		if (needed > most.needed)
			most = (struct quota_refusal){ .at = quota,
						       .sharing = quota->parent->sharing,
						       .needed = needed };
		/* The root shares the pool, too. */
		most.remaining = MIN(quota_room(quota->parent), pool);
		if (most.needed > most.remaining) {
			most.within = quota_room(quota->parent) < pool ? quota->parent : NULL;
			*ret = most;
			return QUOTA_E_SHARE;
		}
	}
	return 0;
}

int quota_ask(const struct quota *quota, const struct quota_event *event, const struct quota_reserves *reserves,
	      struct reserve **ret_reserve, struct quota_refusal *ret_refusal)
{
	const struct quota *full = quota_find_full(quota);

	*ret_reserve = NULL;
	if (full) {
		*ret_refusal = (struct quota_refusal){ .at = full };
		return QUOTA_E_MAXIMUM;
	}
	*ret_reserve = charge_find_reserve(reserves);
	if (*ret_reserve)
		return 0;
	if (LIST_EMPTY(&event->common) && machine_room(event->machine) == 0) {
		*ret_refusal = (struct quota_refusal){ 0 };
		return QUOTA_E_MACHINE;
	}
	return check_shares(quota, event, ret_refusal);
}

static bool charge_is_over(const struct quota_charge *charge)
{
	const struct quota *quota = charge->quota;

	while (quota && !quota_shared_is_over(quota->shared))
		quota = quota->parent;
	if (quota || charge->reserve)
		return quota || quota_shared_is_over(charge->reserve->shared);
	return LIST_FIRST(&charge->event->common) == charge && quota_shared_is_over(charge->event->machine->shared);
}

int quota_charge(struct quota *quota, struct quota_event *event, const struct quota_reserves *reserves,
		 struct quota_charge *ret, struct quota_refusal *ret_refusal)
{
	struct reserve *reserve = charge_find_reserve(reserves);
	int r = ret_refusal ? quota_ask(quota, event, reserves, &reserve, ret_refusal) : 0;

	if (r != 0)
		return r;
	*ret = (struct quota_charge){ .quota = quota, .event = event, .reserve = reserve };
	quota_hold(quota);
	if (reserve) {
		reserve_fill(reserve_ref(reserve));
	} else if (!LIST_EMPTY(&event->common)) {
		/* Another tenant pays for it already. */
		LIST_INSERT_AFTER(LIST_FIRST(&event->common), ret, in_event);
	} else {
		LIST_INSERT_HEAD(&event->common, ret, in_event);
		quota_pay(quota);
		event->machine->common++;
		machine_publish(event->machine);
	}
	if (!ret_refusal || !charge_is_over(ret))
		return 0;
	/* The kernel has taken the last place meanwhile, or it is refused as well. */
	quota_charge_deinit(ret);
	r = quota_ask(quota, event, reserves, &reserve, ret_refusal);
	if (r == 0)
		*ret_refusal = (struct quota_refusal){ 0 };
	return r == 0 ? QUOTA_E_MACHINE : r;
}

void quota_charge_deinit(struct quota_charge *charge)
{
	struct quota_event *event = charge->event;
	bool paid;

	if (!charge->quota)
		return;
	if (charge->reserve) {
		reserve_empty(charge->reserve);
		reserve_unref(charge->reserve);
	} else {
		paid = LIST_FIRST(&event->common) == charge;
		LIST_REMOVE(charge, in_event);
		if (paid)
			quota_pay_no_more(charge->quota);
		if (paid && LIST_EMPTY(&event->common)) {
			event->machine->common--;
			machine_publish(event->machine);
		} else if (paid)
			quota_pay(LIST_FIRST(&event->common)->quota);
	}
	quota_release(charge->quota);
	*charge = (struct quota_charge){ 0 };
}
