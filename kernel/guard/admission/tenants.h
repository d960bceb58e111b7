/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Whose the current process is. */

#include "kernel/guard/admission/maps.h"

/* The number of the entry, or a negative one. */
static __noinline int tenant_find(__u64 cgroup)
{
	const struct admission_shared *memory = shared_get();
	const __u32 first = admission_hash(cgroup);

	if (!memory)
		return -1;
	for (__u32 i = 0; i < ADMISSION_PROBES; i++) {
		const __u32 number = (first + i) & (ADMISSION_TENANTS - 1);
		const __u64 found = memory->tenants[number].cgroup;

		if (found == cgroup)
			return (int)number;
		if (found == 0)
			break;
	}
	return -1;
}

/* A copy of the entry as it is at one moment. False: it is nobody's, may register nothing, or is being changed all the time. */
static __always_inline bool tenant_read(__u32 number, __u64 cgroup, struct admission_tenant *ret)
{
	enum { ATTEMPTS = 8 };
	struct admission_shared *memory = shared_get();
	struct admission_tenant *tenant;

	if (!memory || number > ADMISSION_TENANTS)
		return false;
	tenant = &memory->tenants[number];
	for (int i = 0; i < ATTEMPTS; i++) {
		/* An atomic addition keeps the loads between these two there. */
		const __u32 turn = __sync_fetch_and_add(&tenant->turn, 0);

		*ret = *tenant;
		if (__sync_fetch_and_add(&tenant->turn, 0) == turn && turn % 2 == 0)
			return ret->cgroup == cgroup && ret->quota != 0;
	}
	return false;
}

/* The outermost cgroup around it that is a tenant by the policy, or that is one by default if there is none. Otherwise as tenant_find(). */
static __always_inline int tenant_of_current(__u64 *ret_cgroup)
{
	const struct admission_shared *memory = shared_get();
	int found = -1;

	*ret_cgroup = 0;
	if (!memory || memory->prover == bpf_get_current_pid_tgid() >> 32)
		return memory ? ADMISSION_TENANTS : -1;
	for (int level = 1; level < ADMISSION_DEPTH; level++) {
		const __u64 cgroup = bpf_get_current_ancestor_cgroup_id(level);
		int number;
		bool is_default;

		if (cgroup == 0)
			break;
		number = tenant_find(cgroup);
		if (number < 0)
			continue;
		is_default = memory->tenants[number & (ADMISSION_TENANTS - 1)].flags & ADMISSION_DEFAULT;
		if (found >= 0 && is_default)
			continue;
		found = number;
		*ret_cgroup = cgroup;
		if (!is_default)
			break;
	}
	return found;
}
