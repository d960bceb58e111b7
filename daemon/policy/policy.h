/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What the policy files say about a cgroup. Never changed once it is loaded: a reload makes another one. Pure but for
 * policy_load(): no logging, no clock. policy.c says which section counts.
 */

#include "daemon/policy/keys.h"
#include "daemon/policy/problem.h"

/* The first one that has a file of some name hides all others of that name. */
#define POLICY_DIRECTORIES "/etc/userevd/policy.d:/run/userevd/policy.d:/usr/lib/userevd/policy.d"

enum { POLICY_LEVELS_MAX = 12 }; /* of ancestors that are looked at: nobody's containers are deeper */

struct policy;

/*
 * policy_load.c. Reads all *.conf of the directories, which colons separate; `root` (NULL: none) goes in front of each. 0;
 * POLICY_E_WRONG where there is an error in the files, or one that cannot be read: `problems` has it, and there is no policy;
 * or -ENOMEM. Warnings are in `problems` in any case.
 */
int policy_load(const char *directories, const char *root, struct problems *problems, struct policy **ret);
/* The same for these files alone, in their order. */
int policy_load_files(char *const *files, size_t n, struct problems *problems, struct policy **ret);

/* The text of all files that were read, with their names: what policy_load_copy() makes the same policy of. */
struct policy_copy {
	char *bytes;
	size_t size;
};
void policy_copy_deinit(struct policy_copy *);
/* policy_load() that fills a copy, where that is not NULL; it may be filled in part where there is no policy. */
int policy_load_copying(const char *directories, const char *root, struct problems *problems,
			struct policy_copy *ret_copy, struct policy **ret);
/* POLICY_E_WRONG also where it is no copy. */
int policy_load_copy(const struct policy_copy *, struct problems *problems, struct policy **ret);

struct policy *policy_ref(struct policy *);
struct policy *policy_unref(struct policy *);
/* Whether who asks is the only one that has it. */
bool policy_has_one_holder(const struct policy *);
static inline void policy_unrefp(struct policy **policy)
{
	*policy = policy_unref(*policy);
}

size_t policy_count_files(const struct policy *);
size_t policy_count_sections(const struct policy *);

/* Sets those of `matched`, one for each section, whose patterns match this path. */
void policy_match(const struct policy *, const char *path, bool *matched);
/* Where a section begins; they are sorted by name. */
const struct policy_origin *policy_section_origin(const struct policy *, size_t i);

/* A key of [Daemon]. Never NULL. */
const struct policy_value *policy_daemon(const struct policy *, enum policy_key);

/* Values live as long as the policy. */
struct policy_rules {
	const struct policy *policy; /* with whose: policy_resolve() */
	const char *path;
	const struct policy_value *value[POLICY_CGROUP_KEYS];
	/* DenyEvents= of all levels that have it, the root's first: with policy_resolve(). */
	const struct policy_value *denials[POLICY_LEVELS_MAX + 1];
	size_t n_denials;
};

/* What sections say whose patterns match exactly this path; NULL where none says anything. For one level of a ledger. */
void policy_lookup(const struct policy *, const char *path, struct policy_rules *ret);

/*
 * What holds for a tenant, or for whatever else is at this path: its own limits, and what it has from its ancestors. Nothing
 * is NULL: where nobody says anything there is the default.
 */
void policy_resolve(const struct policy *, const char *path, struct policy_rules *ret);
/* Calls for the root, for each ancestor from there, and for the path itself, until one says that it is enough. */
void policy_walk(const char *path, bool (*at_level)(void *data, const char *path), void *data);
/* The limit of a tenant: its own, or, where it has none, that of [Daemon]. */
const struct policy_value *policy_tenant_limit(const struct policy *, const struct policy_rules *, enum policy_key);
/* Which key that is from. */
enum policy_key policy_tenant_limit_key(const struct policy_rules *, enum policy_key);

/*
 * What Tenant= says of exactly this path: for cgroup_cut_to_tenant(), which asks the outermost ancestor first. Where nothing is
 * said, delegation decides; so what somebody makes inside of a cgroup that is his can match no pattern to his profit.
 */
enum policy_tenant policy_tenant(const struct policy *, const char *path);
/* The same of what was looked up for that path. */
enum policy_tenant policy_rules_tenant(const struct policy_rules *);

/* All reserves: each one sum for all cgroups that its pattern matches. The pattern is what tells it after a reload. */
struct policy_reserve {
	const char *pattern;
	const struct policy_value *value;
};
/* `at` begins as 0. False: there is no more. */
bool policy_next_reserve(const struct policy *, size_t *at, struct policy_reserve *ret);
/* A section with OwnNames=: no two of them own the same name. */
struct policy_owner {
	const struct pattern *pattern;
	const struct policy_value *names;
};
/* `at` begins as 0. False: there is no more. */
bool policy_next_owner(const struct policy *, size_t *at, struct policy_owner *ret);
/* Whether its pattern matches this path, or a cgroup around it. */
bool policy_owner_has(const struct policy_owner *, const char *path);
/*
 * An event of [Event NAME]: it is there as long as the policy is, whether or not a program has it. In the order of their names.
 */
struct policy_event {
	const char *name;
	const struct policy_value *fields;
	const struct policy_value *persist;
	const struct policy_value *tenants; /* who may register it; nothing: everybody */
	const struct policy_origin *origin; /* of the section */
};
/* `at` begins as 0. False: there is no more. */
bool policy_next_event(const struct policy *, size_t *at, struct policy_event *ret);
bool policy_find_event(const struct policy *, const char *name, size_t length, struct policy_event *ret);
size_t policy_count_events(const struct policy *);
/*
 * What all sections together let cgroups have, and what they declare: of each the maximum, or its reserve where that is
 * more.
 */
uint64_t policy_sum_maxima(const struct policy *);
/* 0, or POLICY_E_WRONG with an error where the reserves and the declared events add up to more than that. */
int policy_check_capacity(const struct policy *, uint32_t capacity, struct problems *);

/*
 * policy_event.c. Whether a tenant with these rules (all of them, as from policy_resolve()) may register an event of this full
 * name, with its prefix, and REGISTER_… flags. 0, or REFUSAL_NOT_PERMITTED with a sentence that names the rule. Never anything
 * negative.
 */
struct policy_verdict {
	enum policy_key key; /* that decided */
	const struct policy_value *value;
	const struct policy_glob *glob; /* of its list, the one that matched; NULL: it is no list, or none did */
};
int policy_may_register(const struct policy_rules *, const char *name, size_t length, unsigned flags,
			struct policy_verdict *ret, struct text *why);
/* "MaxEvents=500 of [/machine.slice/a.scope]", or "DefaultMaxEvents=1024": what programs may know of a limit, and no file. */
void policy_limit_text(enum policy_key, const struct policy_value *, struct text *);
/* "/etc/userevd/policy.d/10-a.conf:7", or "default" */
void policy_origin_text(const struct policy_origin *, struct text *);
