/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The levels of cgroups, by path, each with what it and all below it hold. level.c explains. */

#include <sys/queue.h>

#include "daemon/policy/keys.h"
#include "daemon/process/log.h"
#include "daemon/quota/bucket.h"
#include "daemon/quota/quota.h"
#include "protocol/base/table.h"
#include "protocol/refusal.h"

#define LEVEL_NO_LIMIT UINT32_MAX

TAILQ_HEAD(level_queue, level);
TAILQ_HEAD(stream_list, stream);

/* What is counted by quotas. */
enum resource {
	RESOURCE_EVENTS, /* grants */
	RESOURCE_FILES,	 /* streams, until the kernel has let them go */
	RESOURCE_LEASES, /* a registered event counts as one lease as long as nobody leases it */
	RESOURCES,
};

struct level {
	struct quota quota; /* of the cgroup with all that is below it: its events */
	struct quota own;   /* of the tenants of this very path; below the other one */
	struct quota files, own_files;
	struct quota leases, own_leases;
	uint32_t connections; /* here and below */
	uint32_t max_connections;
	struct bucket requests;	    /* likewise */
	struct bucket own_requests; /* of the tenants of this very path */
	/* What the maxima are from, as long as the generation's policy is in force; NULL: no key, but an option or nothing. */
	const struct policy_value *maximum_by[RESOURCES], *connections_by;
	unsigned generation;	   /* of the policy that its limits are from, and the next; 0: of none yet */
	enum policy_tenant border; /* what that says of this path */
	struct level *parent;
	struct stream_list kept; /* streams of the tenants of this very path, the oldest first */
	unsigned n_kept;
	struct refusal_told *refusals; /* of the tenants of this very path, by kind; NULL: none was logged */
	double warned;		       /* when the log last had that it comes near to a maximum; 0: never */
	TAILQ_ENTRY(level) rests;      /* while throttle.c remembers what was asked there */
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
/* Without a reference. NULL: nobody has one. */
const struct level *level_find(struct level *const *table, const char *path);
struct level *level_ref(struct level *);
/* Frees it and those above it that nobody else holds. Returns NULL. */
struct level *level_unref(struct level *);
/*
 * `is_own`: the policy's maximum for this cgroup, with all that is below it. Else the default one, which is for what is
 * charged at this very path and for nothing below, and leaves its tenants to the fair share.
 */
void level_set_maximum(struct level *, enum resource, uint32_t maximum, bool is_own);
/* What is charged at this level and below, and what is charged at this very path. */
struct quota *level_quota(struct level *, enum resource);
struct quota *level_own_quota(struct level *, enum resource);
/* One more, or one less, at this level and all above. */
void level_connect(struct level *);
void level_disconnect(struct level *);
/* The first one, from this one up, that may have no more connections; NULL: there is room. */
const struct level *level_find_crowded(const struct level *);
/* For the tenants of this path: seconds until all levels, from this one up, have room for a request; and that it is made. */
double level_wait(const struct level *, double now);
void level_take(struct level *, double now);
/* Whether the log is to have it now that the level comes near to a maximum: once in REFUSALS_INTERVAL. */
bool level_may_warn(struct level *, double now);
/* What the log has of refusals of this path's tenants, REFUSAL_MAX_ kinds. NULL: no memory. */
struct refusal_told *level_refusals(struct level *);
/* Whether all tokens are back, here and above, and the log has had no line about the level for REFUSALS_INTERVAL. */
bool level_is_rested(const struct level *, double now);
/* How many more may be charged at this very path. */
uint32_t level_room(struct level *, enum resource);
/* The level whose quota that is, this one or one above it; `ret_own`: it is what is charged at its very path. */
struct level *level_of(struct level *, const struct quota *, bool *ret_own);
