/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/privileges.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int empty_bounding_set(uint64_t keep)
{
	int there;

	/* Only dropping a capability that is in the set needs a privilege. */
	for (unsigned long capability = 0; (there = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++)
		if (there && !(keep & CAPABILITY(capability)) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
			return -errno;
	return 0;
}

/* No program that this process starts has more. */
static int limit_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};
	struct __user_cap_data_struct had[2];

	/* The seccomp filter of a unit without capabilities may kill the process for capset(2). */
	if ((syscall(SYS_capget, &header, had) < 0 || memcmp(had, data, sizeof(had)) != 0) &&
	    syscall(SYS_capset, &header, data) < 0)
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

uint64_t privileges_held(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

int privileges_keep(uint64_t capabilities)
{
	int r = empty_bounding_set(capabilities);

	if (r < 0)
		return r;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return limit_capabilities(capabilities);
}

int privileges_become(uid_t uid, gid_t gid)
{
	int r = empty_bounding_set(0);

	if (r < 0)
		return r;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	return limit_capabilities(0);
}
