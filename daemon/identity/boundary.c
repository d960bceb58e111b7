/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Who was given a cgroup makes others in it, owns them and marks them as he likes. Ordinarily that does not matter, since the
 * outermost is the tenant. Where the policy says Tenant=no of that one, what it has inside would be as many tenants as its
 * owner likes to make: so there only the policy's Tenant=yes counts.
 */

#include "daemon/identity/boundary.h"

bool boundary_is(struct boundary *boundary, const char *path, enum policy_tenant said)
{
	if (said == POLICY_TENANT_YES)
		return true;
	if (boundary->lifted || !cgroup_is_delegated(boundary->cgroups, path))
		return false;
	boundary->lifted = said == POLICY_TENANT_NO;
	return !boundary->lifted;
}
