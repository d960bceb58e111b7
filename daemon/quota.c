/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A quota is a level of a tree: what is charged to it counts at every level above it too, so the cost of a decision is the
 * depth of the tree and nothing else. Two trees exist. In one a tenant pays for each event that it holds, whoever else
 * holds it; in the other the machine pays once for each event that exists.
 *
 * A charge leaves a receipt, and only a receipt can be refunded. So nothing is refunded twice, and when a level ends with
 * something still charged, a receipt was lost: quota_deinit() asserts that.
 */

#include "daemon/quota.h"

#include <assert.h>

void quota_init(struct quota *quota, struct quota *parent, uint32_t maximum)
{
	*quota = (struct quota){ .parent = parent, .maximum = maximum };
}

void quota_deinit(struct quota *quota)
{
	assert(quota->used == 0);
	*quota = (struct quota){ 0 };
}

int quota_charge(struct quota *quota, uint32_t amount, struct quota_charge *ret, const struct quota **ret_full)
{
	for (struct quota *level = quota; level; level = level->parent) {
		/* used may stand above maximum: a maximum can be lowered under what is held. */
		if (level->used <= level->maximum && amount <= level->maximum - level->used)
			continue;
		if (ret_full)
			*ret_full = level;
		return QUOTA_E_EXCEEDED;
	}
	for (struct quota *level = quota; level; level = level->parent)
		level->used += amount;
	*ret = (struct quota_charge){ .quota = quota, .amount = amount };
	return 0;
}

void quota_charge_deinit(struct quota_charge *charge)
{
	for (struct quota *level = charge->quota; level; level = level->parent) {
		assert(level->used >= charge->amount);
		level->used -= charge->amount;
	}
	*charge = (struct quota_charge){ 0 };
}
