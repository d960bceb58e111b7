/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A quota is a node of a tree, one for each level of cgroups. A charge counts at the node and at every level above it, so the
 * cost of a decision is the depth of the tree; and making cgroups below one's own gains nothing.
 *
 * There are two sums. Each grant counts in `held`, also if other tenants hold the same event: maxima apply to this sum. Each
 * event in the machine's common pool is paid for by one of its holders, and counts in that tenant's `paid`: fair shares apply
 * to this sum. So a second holder of an event pays nothing, and all `paid` add up to the events in the pool.
 *
 * Only charge.c changes the sums, and makes a receipt for each change. quota_deinit() asserts that no receipt was lost.
 */

#include "daemon/quota/quota.h"

#include <assert.h>

void quota_init(struct quota *quota, struct quota *parent)
{
	*quota = (struct quota){ .parent = parent, .maximum = QUOTA_NO_MAXIMUM };
}

void quota_deinit(struct quota *quota)
{
	assert(quota->held == 0);
	assert(quota->paid == 0);
	assert(quota->sharing == 0);
	*quota = (struct quota){ 0 };
}

static uint32_t remainder_of(uint32_t maximum, uint32_t held)
{
	return maximum > held ? maximum - held : 0;
}

static void publish(struct quota *quota)
{
	quota_shared_allow(quota->shared, remainder_of(quota->maximum, quota->held));
}

void quota_share(struct quota *quota, struct quota_shared *shared)
{
	quota->shared = shared;
	publish(quota);
}

uint32_t quota_held(const struct quota *quota)
{
	return quota->held + quota_shared_used(quota->shared);
}

/* Whether as many, or more, of the maximum's hundred parts are held. */
static bool holds_percent(const struct quota *quota, unsigned percent)
{
	return (uint64_t)quota_held(quota) * 100 >= (uint64_t)quota->maximum * percent;
}

static void forget_warning(struct quota *quota)
{
	if (quota->warned && !holds_percent(quota, 70))
		quota->warned = false;
}

static bool is_sharing(const struct quota *quota)
{
	return quota->parent && quota->paid > 0 && !quota->has_own_maximum;
}

void quota_set_maximum(struct quota *quota, uint32_t maximum, bool is_own)
{
	bool was_sharing = is_sharing(quota);

	quota->maximum = maximum;
	quota->has_own_maximum = is_own;
	if (quota->parent)
		quota->parent->sharing += (uint32_t)is_sharing(quota) - (uint32_t)was_sharing;
	publish(quota);
	forget_warning(quota);
}

uint32_t quota_room(const struct quota *quota)
{
	return remainder_of(quota->maximum, quota_held(quota));
}

const struct quota *quota_find_full(const struct quota *quota)
{
	while (quota && quota_room(quota) > 0)
		quota = quota->parent;
	return quota;
}

const struct quota *quota_warn(struct quota *quota)
{
	while (quota && (quota->warned || quota->maximum == QUOTA_NO_MAXIMUM || !holds_percent(quota, 80)))
		quota = quota->parent;
	if (quota)
		quota->warned = true;
	return quota;
}

void quota_hold(struct quota *quota)
{
	for (; quota; quota = quota->parent) {
		quota->held++;
		publish(quota);
	}
}

void quota_release(struct quota *quota)
{
	for (; quota; quota = quota->parent) {
		assert(quota->held > 0);
		quota->held--;
		publish(quota);
		forget_warning(quota);
	}
}

void quota_pay(struct quota *quota)
{
	for (; quota; quota = quota->parent) {
		quota->paid++;
		if (quota->paid == 1 && is_sharing(quota))
			quota->parent->sharing++;
	}
}

void quota_pay_no_more(struct quota *quota)
{
	for (; quota; quota = quota->parent) {
		assert(quota->paid > 0);
		if (quota->paid == 1 && is_sharing(quota))
			quota->parent->sharing--;
		quota->paid--;
	}
}
