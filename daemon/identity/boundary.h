/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which cgroups are borders between tenants: what the policy says, and else what was given away. boundary.c explains. */

#include "daemon/identity/cgroup.h"
#include "daemon/policy/keys.h"

/* For one walk from the root down. */
struct boundary {
	const struct cgroups *cgroups;
	bool lifted; /* further out something was given away, and the policy says that it is no tenant */
};

/* Whether the cgroup of that path, of which the policy says this, is one; its ancestors have been asked about before. */
bool boundary_is(struct boundary *, const char *path, enum policy_tenant said);
