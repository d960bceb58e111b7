/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/fds.h"

#include <sys/resource.h>

#include "daemon/limits.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

static size_t fds_count(const struct registry *registry)
{
	size_t n = registry->n_holders + HASH_CNT(by_number, registry->streams);

	if (!registry->ledger)
		return n + HASH_CNT(by_identity, registry->tenants);
	/* A page is two; and another keeper gets a copy of everything at once. */
	return 2 * (n + 2 * (size_t)HASH_CNT(by_identity, registry->tenants)) + registry->copies;
}

/* Asked each time: an admin may change it (prlimit). */
static rlim_t fds_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? RLIM_INFINITY : limit.rlim_cur;
}

static rlim_t fds_own(rlim_t limit)
{
	return MIN(OWN_FDS, limit / 4);
}

bool fds_are_left(const struct registry *registry)
{
	rlim_t limit = fds_limit();

	return fds_count(registry) + fds_own(limit) < limit;
}

/*
 * A quarter of the fds, since each file is two where a keeper's successor gets a copy, and its connection as many. The keeper's
 * limit is no smaller than ours: it inherits it, or has twice as many from its unit, and each file is one fd there.
 */
uint32_t fds_for_files(void)
{
	rlim_t limit = fds_limit();

	return (uint32_t)MIN((limit - fds_own(limit)) / 4, (rlim_t)UINT32_MAX);
}

bool fds_may_be_kept(const struct registry *registry)
{
	return fds_count(registry) < fds_limit() / 2;
}
