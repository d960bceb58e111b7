/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Applies the policy to tenants, to the levels above them, and to reserves. rules.c explains. */

#include "daemon/policy/policy.h"
#include "daemon/quota/level.h"
#include "protocol/wire.h"

struct holder;
struct registry;
struct section_reserve;
struct tenant;

/* The daemon's policy from now on, taken over; instead of it there is the one before, or NULL. Or -ENOMEM: all is as it was. */
int rules_adopt(struct registry *, struct policy **);
void rules_deinit(struct registry *);

/* The key of a maximum: a section's own, or that of [Daemon]. */
enum policy_key rules_limit_key(enum resource, bool is_own);

/* The value of Guard=. */
const char *rules_guard(const struct registry *);

/* Whether the policy makes this path a tenant. Cheap for paths whose level exists. */
enum policy_tenant rules_border(const struct registry *, const char *path);

/* Brings a tenant up to date. Cheap where nothing has changed. */
void rules_update(struct tenant *);
void rules_forget(struct tenant *);

/* Whether a file of the tenant's may serve all of a user's programs. */
bool rules_share_streams(const struct tenant *);
/* Why the client may not have data files, as things are: uid 0 of this machine, in a container, where nothing guards them. Or NULL. */
const char *rules_distrust(const struct holder *);
/* Whether it matters which of the peers that connect now may be root of this machine. */
bool rules_ask_for_root(const struct registry *);
/* KeepFor=, in seconds. */
uint32_t rules_keep_for(const struct tenant *);
/* The flags of REGISTER that the tenant may use. */
uint16_t rules_flags(const struct tenant *);
