/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The tree of quotas: how many of a resource each node holds, and may hold. Pure arithmetic: no I/O, no allocation, no clock.
 * quota.c explains.
 */

#include "protocol/base/base.h"

#define QUOTA_NO_MAXIMUM UINT32_MAX

struct quota {
	struct quota *parent; /* NULL: the machine's own, the root */
	uint32_t maximum;
	uint32_t held;	  /* grants, here and below */
	uint32_t paid;	  /* events in the machine's common pool that are paid for, here and below */
	uint32_t sharing; /* nodes right below this one that pay for some and have no maximum of their own */
	bool has_own_maximum;
	bool warned; /* that it comes near to its maximum */
};

void quota_init(struct quota *, struct quota *parent);
/* Asserts that everything has been refunded, and that no node is left below it. */
void quota_deinit(struct quota *);

/*
 * A maximum below the number held leaves that as it is, and refuses more. `is_own`: the admin has set it for this node, which
 * then takes no part in the fair share among its siblings; a default is no such maximum.
 */
void quota_set_maximum(struct quota *, uint32_t maximum, bool is_own);
/* How many more its maximum allows. */
uint32_t quota_room(const struct quota *);
/* The lowest node, from this one up, that has reached its maximum; NULL: each has room. */
const struct quota *quota_find_full(const struct quota *);

/*
 * After a charge: the lowest node, from this one up, that has crossed 80 % of its maximum; NULL where none has. Each is
 * named once, and not again until it has been below 70 %.
 */
const struct quota *quota_warn(struct quota *);

/* For charge.c: counts a grant, or the payment for an event, here and at all levels above. */
void quota_hold(struct quota *);
void quota_release(struct quota *);
void quota_pay(struct quota *);
void quota_pay_no_more(struct quota *);
