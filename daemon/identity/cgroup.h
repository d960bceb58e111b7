/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which cgroup is a process in, and which of its ancestors is the tenant. */

#include <limits.h>
#include <sys/types.h>

#include "protocol/base/base.h"

/* Where this machine's cgroups are. */
struct cgroups {
	char mount[PATH_MAX]; /* "" where none is visible */
	char root[PATH_MAX];  /* what the mount shows as its own root: "/" unless we are in a container */
	char controller[32];  /* the line of /proc/PID/cgroup: "" for v2's, "name=systemd" on a v1 host */
};

/* Reads `mountinfo` (NULL: /proc/self/mountinfo): all of it, or a negative errno. Without a mount, paths have no ids. */
int cgroups_find(const char *mountinfo, struct cgroups *ret);

/* Picks the line out of the text of /proc/PID/cgroup. 0, -ENODATA where there is none, -ENAMETOOLONG. */
int cgroup_parse(const struct cgroups *, const char *text, char *ret_path, size_t size);

/* 0, or a negative errno: -ESRCH where the process has gone. */
int cgroup_of_process(const struct cgroups *, pid_t pid, char *ret_path, size_t size);

/* The cgroup's id, which is its inode's number; 0 where it can't be seen. */
uint64_t cgroup_id(const struct cgroups *, const char *path);

/*
 * Whether the cgroup has been given away: systemd says so (a container's scope, a unit with Delegate=), or it is not root's.
 * A mark inside of one that is not root's may be anybody's; but then that one is further out, and counts.
 */
bool cgroup_is_delegated(const struct cgroups *, const char *path);

/*
 * Cuts `path` to its tenant: the outermost ancestor that is a delegation boundary, else the second level below the root. So
 * whoever may make cgroups below that gains nothing by it. `is_delegated` is asked for each ancestor, outermost first. True:
 * one of them was.
 */
bool cgroup_cut_to_tenant(char *path, bool (*is_delegated)(void *data, const char *path), void *data);
