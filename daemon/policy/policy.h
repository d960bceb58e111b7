/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The values that policy files have for each cgroup. A policy never changes: a reload makes a new one. Pure but for
 * policy_load(): no logging, no clock. policy.c explains which section counts.
 */

#include "daemon/policy/keys.h"
#include "daemon/policy/problem.h"

/* A file hides the files of the same name in later directories. */
#define POLICY_DIRECTORIES "/etc/userevd/policy.d:/run/userevd/policy.d:/usr/lib/userevd/policy.d"

enum { POLICY_LEVELS_MAX = 12 }; /* of ancestors that are looked at: containers are not nested deeper */

/* A section of the files. It has those of the values whose origin has a file. */
struct section {
	struct pattern pattern; /* of cgroups; no text in other sections */
	const char *name;
	struct policy_origin origin; /* where it began first */
	struct policy_value values[POLICY_KEYS];
};

struct sections {
	struct section **at;
	size_t n;
};

/* The names and the text of all files that were read: policy_load_copy() makes the same policy from it. */
struct policy_copy {
	char *bytes;
	size_t size;
};

/* To be read; build.h has the functions that fill it. */
struct policy {
	unsigned references;
	unsigned order; /* assignments so far */
	struct section daemon;
	struct sections sections; /* of cgroups, sorted by name */
	struct sections borders;  /* those of them with Tenant= */
	struct sections owners;	  /* those with OwnNames=: no two of them own the same name */
	struct sections events;	  /* [Event NAME], sorted by name */
	struct policy_copy copy;
	size_t n_files;
	bool failed; /* for want of memory */
	struct policy_block *memory;
};

enum { POLICY_E_WRONG = 1 };

/*
 * load.c. Reads all *.conf of the directories, which colons separate; `root` (NULL: none) is put before each. 0;
 * POLICY_E_WRONG where a file has an error or cannot be read: then there is no policy, and `problems` has the errors;
 * or -ENOMEM. `problems` has the warnings in any case.
 */
int policy_load(const char *directories, const char *root, struct problems *problems, struct policy **ret);
/* The same for these files alone, in their order. */
int policy_load_files(char *const *files, size_t n, struct problems *problems, struct policy **ret);

/* Takes the copy over. POLICY_E_WRONG also where it is no copy. */
int policy_load_copy(struct policy_copy *, struct problems *problems, struct policy **ret);
void policy_copy_deinit(struct policy_copy *);

struct policy *policy_ref(struct policy *);
struct policy *policy_unref(struct policy *);
static inline void policy_unrefp(struct policy **policy)
{
	*policy = policy_unref(*policy);
}

/* The section's value, or the default. Never NULL. */
const struct policy_value *policy_section_value(const struct section *, enum policy_key);
/* A key of [Daemon]. */
const struct policy_value *policy_daemon(const struct policy *, enum policy_key);

/* Values live as long as the policy. */
struct policy_rules {
	const struct policy *policy; /* set by policy_resolve() */
	const char *path;
	const struct policy_value *value[POLICY_CGROUP_KEYS];
	/* DenyEvents= of all levels that have it, the root's first: with policy_resolve(). */
	const struct policy_value *denials[POLICY_LEVELS_MAX + 1];
	size_t n_denials;
};

/* The values of the sections that match exactly this path; NULL where no section has the key. */
void policy_lookup(const struct sections *, const char *path, struct policy_rules *ret);

/*
 * The rules of a tenant, or of anything else at this path: its own limits, and the values that it inherits. No value is NULL: a
 * key that no section has is at its default.
 */
void policy_resolve(const struct policy *, const char *path, struct policy_rules *ret);
/* The cgroups around a path: begins as { .from = path }. */
struct policy_levels {
	const char *from;
	size_t length;
	unsigned n;
	char path[4096];
};
/* Moves on to the root, then to each ancestor from there, and last to the path itself. False: no more, or it is no path. */
bool policy_next_level(struct policy_levels *);
/* The limit of a tenant: its own, or that of [Daemon]. */
const struct policy_value *policy_tenant_limit(const struct policy_rules *, enum policy_key);

/*
 * Tenant= of exactly this path, for cgroup_cut_to_tenant(), which begins with the outermost ancestor. So the owner of a delegated
 * cgroup gains nothing by making cgroups inside whose names match a pattern.
 */
enum policy_tenant policy_tenant(const struct policy *, const char *path);
/* The same from the rules of that path. */
enum policy_tenant policy_rules_tenant(const struct policy_rules *);

/* The section of the tenant at this path, or of the nearest cgroup around it; of several the one whose values count. NULL: none. */
const struct section *policy_nearest(const struct policy *, const char *path);
/* Whether the section's pattern matches this path, or a cgroup around it. */
bool policy_section_has(const struct section *, const char *path);
/* The greatest value that any section has for Native=. */
enum policy_native policy_native(const struct policy *);
/* NULL: no section declares an event of this name. */
const struct section *policy_find_event(const struct policy *, const char *name, size_t length);
/* Events that all sections together allow (the maximum of each, or its reserve where that is more), and declared events. */
uint64_t policy_sum_maxima(const struct policy *);
/* 0, or POLICY_E_WRONG with a problem where reserves and declared events add up to more than the capacity. */
int policy_check_capacity(const struct policy *, uint32_t capacity, struct problems *);

struct policy_verdict {
	enum policy_key key; /* the key that decided */
	const struct policy_value *value;
	const struct policy_glob *glob; /* the glob of its list that matched; NULL: none, or no list */
};
/*
 * event.c. Whether a tenant with these rules (of policy_resolve()) may register an event of this full name with these REGISTER_…
 * flags: 0, or REFUSAL_NOT_PERMITTED with a sentence that names the rule. Never negative.
 */
int policy_may_register(const struct policy_rules *, const char *name, size_t length, unsigned flags,
			struct policy_verdict *ret, struct text *why);
/* Whether this declared event is for other cgroups alone, by Tenants=. */
bool policy_keeps_event(const struct policy_rules *, const struct section *event);
/*
 * The same for a description as the client sends it, which gets the tenant's prefix and is parsed into `ret`. 0, or a refusal with
 * a sentence; the verdict's key is POLICY_KEYS where the description is wrong.
 */
struct description;
int policy_admit(const struct policy_rules *, const char *asked, size_t length, unsigned flags, struct description *ret,
		 struct policy_verdict *, struct text *why);
/* "MaxEvents=500 of [/machine.slice/a.scope]", or "DefaultMaxEvents=1024": a limit as a client may see it, without the file's name. */
void policy_limit_text(enum policy_key, const struct policy_value *, struct text *);
/* "/etc/userevd/policy.d/10-a.conf:7", or "default" */
void policy_origin_text(const struct policy_origin *, struct text *);
