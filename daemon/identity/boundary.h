/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which cgroups are borders between tenants: what the policy says, and else what was given away. boundary.c explains. */

#include "daemon/identity/cgroup.h"
#include "daemon/policy/keys.h"

/* The state of one walk from the root down. */
struct boundary {
	const struct cgroups *cgroups;
	bool lifted; /* an outer cgroup is delegated and has Tenant=no */
};

/* Whether the cgroup, which has this Tenant= in the policy, is a tenant. To be called for its ancestors first. */
bool boundary_is(struct boundary *, const char *path, enum policy_tenant said);
