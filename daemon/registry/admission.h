/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Asks the quotas whether a tenant may have one more, and puts a refusal into words. */

#include "daemon/quota/level.h"

struct quota_charge;
struct quota_event;
struct reserve;
struct tenant;
struct text;

/* Charges the tenant for one event more. 0, or a positive enum refusal with a sentence in `why`. */
int admission_charge(struct tenant *, struct quota_event *, struct quota_charge *ret, struct text *why);
/* After a restart: charges what the tenant held before. It can't be refused. */
void admission_charge_again(struct tenant *, struct quota_event *, struct quota_charge *ret);
/* Whether it would be; with the reserve that it would fill, or NULL. Nothing changes. */
int admission_ask(const struct tenant *, const struct quota_event *, struct reserve **ret, struct text *why);

/* As the functions above, for a data file, which is charged to an account of its own. */
int admission_charge_file(struct tenant *, struct quota_event *, struct quota_charge *ret, struct text *why);
void admission_charge_file_again(struct tenant *, struct quota_event *, struct quota_charge *ret);

/* Whether the tenant may have one lease more; nothing changes. 0, or a refusal. */
int admission_ask_lease(const struct tenant *, struct text *why);

/* Logs a warning when the tenant, or a cgroup around it, comes near to a maximum. */
void admission_warn(struct tenant *, enum resource);
