/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/fd_budget.h"

#include "daemon/process/fds.h"
#include "daemon/registry/tenant.h"

static size_t fd_budget_used(const struct registry *registry)
{
	size_t n = registry->n_holders + registry->n_streams;

	if (!registry->ledger)
		return n + HASH_CNT(by_number, registry->tenants);
	/* A page has two fds; and a new keeper gets copies of all fds at once. */
	return 2 * (n + 2 * (size_t)HASH_CNT(by_number, registry->tenants)) + registry->copies;
}

bool fd_budget_has_room(const struct registry *registry)
{
	rlim_t limit = fds_limit();

	return fd_budget_used(registry) + fds_own(limit) < limit;
}

bool fd_budget_may_keep(const struct registry *registry)
{
	return fd_budget_used(registry) < fds_limit() / 2;
}
