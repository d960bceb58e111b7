/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The cgroup of a process, and the ancestor that is its tenant. */

#include <limits.h>
#include <sys/types.h>

#include "daemon/policy/keys.h"
#include "protocol/base/base.h"

enum { CGROUPS_KNOWN = 256 };

/* A cgroup in which a client was lately. */
struct cgroup {
	uint64_t id; /* 0: it is not visible */
	char *path;
	uint32_t tenant;     /* its number, for registry/tenant.c; 0: unknown */
	unsigned generation; /* of the policy, when the tenant was looked for */
	double looked;
};

/* Where this machine's cgroups are. */
struct cgroups {
	char mount[PATH_MAX]; /* "": none is visible */
	int directory;	      /* the mount's fd, where it was opened; otherwise 0 or -1 */
	char root[PATH_MAX];  /* of the mount: "/" unless the daemon is in a container */
	char controller[32];  /* in the line of /proc/PID/cgroup: "" for cgroup2, "name=systemd" on a v1 host */
	struct cgroup known[CGROUPS_KNOWN]; /* by id; where two have one place, the last one has it */
};

/* Reads `mountinfo` (NULL: /proc/self/mountinfo). 0 or a negative errno. Without a mount, paths have no ids. */
int cgroups_find(const char *mountinfo, struct cgroups *ret);

/* The path in the text of /proc/PID/cgroup. 0, -ENODATA: there is none, or -ENAMETOOLONG. */
int cgroup_parse(const struct cgroups *, const char *text, char *ret_path, size_t size);

/* 0 or a negative errno: -ESRCH: the process has exited. */
int cgroup_of_process(const struct cgroups *, pid_t pid, char *ret_path, size_t size);

/* The cgroup's directory; false: the mount does not show it. */
bool cgroup_directory(const struct cgroups *, const char *path, char *ret, size_t size);

/* Whether the path is that of this cgroup, or of one inside. */
static inline bool cgroup_is_inside(const char *path, const char *cgroup)
{
	size_t length = streq(cgroup, "/") ? 0 : strlen(cgroup);

	return *path == '/' && *cgroup == '/' && strncmp(path, cgroup, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

/* The cgroup's id, which is its inode number; 0: it is not visible. */
uint64_t cgroup_id(const struct cgroups *, const char *path);

/* The cgroup with that id, if a client was in it lately; otherwise NULL. */
struct cgroup *cgroup_known(struct cgroups *, uint64_t id);
/* Finds or remembers the cgroup at the path. 0 or -ENOMEM. `ret` is valid until the next call. */
int cgroup_get(struct cgroups *, const char *path, struct cgroup **ret);
void cgroups_forget(struct cgroups *);

/*
 * Whether the cgroup is delegated: systemd has marked it (the scope of a container, a unit with Delegate=), or its owner is not
 * root. A mark inside of a delegated cgroup may be forged, but then the outer cgroup counts.
 */
bool cgroup_is_delegated(const struct cgroups *, const char *path);

/* Tenant= of exactly this path. */
typedef enum policy_tenant cgroup_rule(void *data, const char *path);

/*
 * Cuts `path` to its tenant: the outermost ancestor that is delegated or has Tenant=yes (the rule is asked for from the outermost one
 * on), otherwise the second level below the root. So making cgroups inside a tenant makes no new tenants. True: one was such an
 * ancestor.
 */
bool cgroup_cut_to_tenant(const struct cgroups *, char *path, cgroup_rule *, void *data);

/*
 * The first read of /proc/PID/NAME, up to size - 1 bytes, with a NUL behind them; the kernel gives all but lists (uid_map) at once. The
 * number of bytes, or a negative errno: -ESRCH: no such process.
 */
ssize_t proc_read(pid_t pid, const char *name, char *ret, size_t size);
