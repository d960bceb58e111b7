/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Asks the quotas whether a tenant may have one more, and puts a refusal into words. */

#include "daemon/quota/level.h"

struct quota_charge;
struct quota_event;
struct reserve;
struct tenant;

/*
 * Charges the tenant for one event or data file more. 0, or a positive enum refusal with a sentence in `why`. NULL: what the tenant held
 * before a restart, or what is never refused.
 */
int admission_charge(struct tenant *, enum resource, struct quota_event *, struct quota_charge *ret, struct text *why);
/* Whether it would be charged for one event more; with the reserve that it would fill, or NULL. Nothing changes. */
int admission_ask(const struct tenant *, const struct quota_event *, struct reserve **ret, struct text *why);

/* Whether the maxima allow the tenant one lease or connection more; nothing changes. 0, or REFUSAL_QUOTA_EXCEEDED with a sentence. */
int admission_ask_maximum(const struct tenant *, enum resource, struct text *why);

/* Logs a warning when the tenant, or a cgroup around it, comes near to a maximum. */
void admission_warn(struct tenant *, enum resource);
