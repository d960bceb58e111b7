/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Applies the policy to tenants, to the levels above them, and to reserves. rules.c explains. */

#include "daemon/policy/policy.h"
#include "daemon/quota/level.h"

struct holder;
struct registry;
struct tenant;

/* Takes over the policy, and returns the last one, or NULL, in its place. 0, or -ENOMEM: nothing has changed. */
int rules_adopt(struct registry *, struct policy **);
void rules_deinit(struct registry *);
/* The reserve of the section with this pattern, without a reference; NULL: it has none. */
struct reserve *rules_reserve(const struct registry *, const char *pattern);
/* The pattern of that section. NULL: no section has this reserve any more. */
const char *rules_pattern(const struct registry *, const struct reserve *);

/* The key of a maximum: a section's own, or that of [Daemon]. */
enum policy_key rules_limit_key(enum resource, bool is_own);

/* Whether the policy makes this path a tenant (a cgroup_rule; data is the registry). Cheap for paths whose level exists. */
enum policy_tenant rules_border(void *data, const char *path);

/* Brings a tenant up to date. Cheap where nothing has changed. */
void rules_update(struct tenant *);
void rules_forget(struct tenant *);

/* Whether a file of the tenant's may serve all of a user's programs. */
bool rules_share_streams(const struct tenant *);
/* Why the client may not have unguarded data files: it is, or may become, root of this machine in a container. NULL: it may. */
const char *rules_distrust(const struct holder *);
/* Whether nothing guards data files: then it matters which peers may be root of this machine. */
bool rules_are_unguarded(const struct registry *);
/* NamePrefix=, or NULL. */
const char *rules_prefix(const struct tenant *);
/* MaxTraceBytes=, or 0 without OwnTracing=yes. */
uint32_t rules_trace_bytes(const struct tenant *);
/* KeepFor=, in seconds. */
uint32_t rules_keep_for(const struct tenant *);
/* The flags of REGISTER that the tenant may use. */
uint16_t rules_flags(const struct tenant *);
