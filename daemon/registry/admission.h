/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The ledger's answers, as a tenant's programs are told. */

#include "daemon/quota/level.h"

struct quota_charge;
struct quota_event;
struct reserve;
struct tenant;
struct text;

/* Charges the tenant for one event more. 0, or a positive enum refusal with a sentence in `why`. */
int admission_charge(struct tenant *, struct quota_event *, struct quota_charge *ret, struct text *why);
/* What it held before a restart, it holds again. */
void admission_charge_again(struct tenant *, struct quota_event *, struct quota_charge *ret);
/* Whether it would be; with the reserve that it would fill, or NULL. Nothing changes. */
int admission_ask(const struct tenant *, const struct quota_event *, struct reserve **ret, struct text *why);

/* The same for a data file, which has an account of its own. */
int admission_charge_file(struct tenant *, struct quota_event *, struct quota_charge *ret, struct text *why);
void admission_charge_file_again(struct tenant *, struct quota_event *, struct quota_charge *ret);

/* Whether the tenant may have one lease more; nothing changes. 0, or a refusal. */
int admission_ask_lease(const struct tenant *, struct text *why);

/* Warns of maxima that the tenant, or a cgroup around it, has come near to: before anybody is refused. */
void admission_warn(struct tenant *, enum resource);
