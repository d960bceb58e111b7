/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The tree of quotas: how many of a resource each node holds, and may hold. Pure arithmetic: no I/O, no allocation, no clock.
 * quota.c explains.
 */

#include "protocol/base/base.h"

#define QUOTA_NO_MAXIMUM UINT32_MAX

/*
 * A number that the kernel counts as well, for programs that register by themselves: memory of both, which struct admission_node begins
 * with. We write how many the kernel may count, and it writes how many it does.
 */
struct quota_shared {
	uint32_t limit;
	uint32_t used;
};

struct quota {
	struct quota *parent; /* NULL: the machine's own, the root */
	uint32_t maximum;
	uint32_t held;	  /* grants, here and below */
	uint32_t paid;	  /* events in the machine's common pool that are paid for, here and below */
	uint32_t sharing; /* nodes right below this one that pay for some and have no maximum of their own */
	bool has_own_maximum;
	bool warned;		     /* that it comes near to its maximum */
	struct quota_shared *shared; /* NULL: nobody else counts here */
};

/* As the kernel has counted. */
static inline uint32_t quota_shared_used(const struct quota_shared *shared)
{
	return shared ? __atomic_load_n(&shared->used, __ATOMIC_SEQ_CST) : 0;
}
/* How many it may count. Each side writes before it reads, so that of two that want the last place one notices. */
static inline void quota_shared_allow(struct quota_shared *shared, uint32_t limit)
{
	if (shared)
		__atomic_store_n(&shared->limit, limit, __ATOMIC_SEQ_CST);
}
/* Whether it has counted more meanwhile. */
static inline bool quota_shared_is_over(const struct quota_shared *shared)
{
	return shared && quota_shared_used(shared) > shared->limit;
}

void quota_init(struct quota *, struct quota *parent);
/* Asserts that everything has been refunded, and that no node is left below it. */
void quota_deinit(struct quota *);

/*
 * A maximum below the number held leaves that as it is, and refuses more. `is_own`: the admin has set it for this node, which
 * then takes no part in the fair share among its siblings; a default is no such maximum.
 */
void quota_set_maximum(struct quota *, uint32_t maximum, bool is_own);
/* From now on the kernel counts here, too; NULL: no more. */
void quota_share(struct quota *, struct quota_shared *);
/* How many it holds, with those that the kernel counts. */
uint32_t quota_held(const struct quota *);
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
