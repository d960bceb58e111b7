/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The levels of the cgroup tree, by path, each with the quotas of itself and of all below it. level.c explains. */

#include <sys/queue.h>

#include "daemon/policy/keys.h"
#include "daemon/process/bucket.h"
#include "daemon/process/log.h"
#include "daemon/quota/quota.h"
#include "protocol/base/table.h"
#include "protocol/refusal.h"

#define LEVEL_NO_LIMIT UINT32_MAX

TAILQ_HEAD(level_queue, level);
TAILQ_HEAD(stream_list, stream);
LIST_HEAD(tenant_list, tenant);

/* The resources that quotas count. */
enum resource {
	RESOURCE_EVENTS, /* grants */
	RESOURCE_FILES,	 /* streams, until the kernel has let them go */
	RESOURCE_LEASES, /* a registered event without a lease counts as one */
	RESOURCE_CONNECTIONS,
	RESOURCES,
};

struct level {
	struct quota quota[RESOURCES]; /* of the cgroup with all that is below it */
	struct quota own[RESOURCES];   /* of the tenants of this very path; below the other one */
	struct bucket requests;	       /* of the cgroup with all that is below it */
	struct bucket own_requests;    /* of the tenants of this very path */
	/* The keys that the maxima are from, as long as the generation's policy is in force; NULL: an option, or none. */
	const struct policy_value *maximum_by[RESOURCES];
	unsigned generation;	   /* of the policy that its limits are from, and the next; 0: of none yet */
	enum policy_tenant border; /* whether that policy makes this path a tenant */
	struct level *parent;
	struct tenant_list tenants; /* of this very path */
	struct stream_list kept;    /* streams of the tenants of this very path, the oldest first */
	unsigned n_kept;
	struct refusal_told *refusals; /* of the tenants of this very path, by kind; NULL: none was logged */
	double warned;		       /* when the last warning about a maximum was logged; 0: never */
	TAILQ_ENTRY(level) rests;      /* while it is in the list of registry/resting.c */
	bool rests_already;
	struct level **table;
	unsigned references;
	UT_hash_handle by_path;
	char path[];
};

/*
 * Finds or makes the level of a path, and all above it up to "/". With one reference, which the caller owns. A path that does
 * not begin with a slash is made up, and one level below the root. 0, or -ENOMEM.
 */
int level_get(struct level **table, const char *path, struct level **ret);
/* Without a reference. NULL: there is no such level. */
struct level *level_find(struct level *const *table, const char *path, size_t length);
struct level *level_ref(struct level *);
/* Frees it, and the levels above it, if it was the last reference. Returns NULL. */
struct level *level_unref(struct level *);
/*
 * `is_own`: the policy's maximum for this cgroup and all below it. Otherwise the default maximum, which is for charges at
 * this very path alone, and leaves its tenants to the fair share.
 */
void level_set_maximum(struct level *, enum resource, uint32_t maximum, bool is_own);
/* For the tenants of this path: seconds until all levels, from this one up, have room for a request; and that it is made. */
double level_wait(const struct level *, double now);
void level_take(struct level *, double now);
/* Whether a warning about a maximum may be logged now: once in REFUSALS_INTERVAL. */
bool level_may_warn(struct level *, double now);
/* Whether all tokens are back, here and above, and no line about the level was logged for REFUSALS_INTERVAL. */
bool level_is_rested(const struct level *, double now);
/* How many more may be charged at this very path. */
uint32_t level_room(struct level *, enum resource);
/* The level, this one or one above it, that the quota belongs to; `ret_own`: it is the quota of its very path. */
struct level *level_of(struct level *, const struct quota *, bool *ret_own);
