/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/fds.h"

#include "daemon/limits.h"

rlim_t fds_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? RLIM_INFINITY : limit.rlim_cur;
}

/* With few fds a quarter is not enough: the daemon itself has sixteen open, and one more for each connection that it looks at. */
rlim_t fds_own(rlim_t limit)
{
	return MIN(OWN_FDS, MAX(limit / 4, OWN_FDS / 2));
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
