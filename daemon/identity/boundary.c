/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The owner of a delegated cgroup can make cgroups inside it and mark them as delegated. That has no effect as long as the outermost
 * one is the tenant. With Tenant=no for that one, the owner could make any number of tenants inside; so there only Tenant=yes counts.
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
