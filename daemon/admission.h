/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The ledger's answers, as a tenant's programs are told. */

#include "protocol/base.h"

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
