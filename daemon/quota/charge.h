/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Whether a tenant may hold one event more, and the receipt that it does. Pure arithmetic. charge.c explains. */

#include <sys/queue.h>

#include "daemon/quota/quota.h"
#include "daemon/quota/reserve.h"

LIST_HEAD(quota_charges, quota_charge);

/* An event's account. Begins as zeros and the machine. */
struct quota_event {
	struct machine *machine;
	struct quota_charges common; /* of the tenants that hold it without a reserve; the first one pays */
};

/* The receipt of one grant, kept in the grant; it must stay where it is. All zeros: nothing was charged. */
struct quota_charge {
	struct quota *quota;
	struct quota_event *event;
	struct reserve *reserve; /* which it fills; NULL: none */
	LIST_ENTRY(quota_charge) in_event;
};

/* The reserves that a tenant may fill, the nearest section's first. All zeros: none. */
struct quota_reserves {
	struct reserve *const *reserve;
	size_t n;
	bool are_of_files; /* those of data files that are beside them */
};

enum {
	QUOTA_E_MAXIMUM = 1, /* `at` has reached its maximum */
	QUOTA_E_MACHINE,     /* the common pool is used up */
	QUOTA_E_SHARE,	     /* `at` has its fair share: it would take `needed`, and there are `remaining` */
};

/* Why a charge was refused, with the numbers for a sentence. */
struct quota_refusal {
	const struct quota *at;
	const struct quota *within; /* where so few remain; NULL: in the machine's pool */
	uint32_t sharing; /* levels that divide the room: the siblings that pay for events, and `at` if it does */
	uint64_t needed;
	uint32_t remaining;
};

/* Asserts that no charge is left. */
void quota_event_deinit(struct quota_event *);

/* Whether one more would be admitted: 0, with the reserve that it would fill, or NULL; or QUOTA_E_… Nothing changes. */
int quota_ask(const struct quota *, const struct quota_event *, const struct quota_reserves *,
	      struct reserve **ret_reserve, struct quota_refusal *ret_refusal);
/*
 * One more for this node, which must not hold it yet. 0 with the receipt, or QUOTA_E_…; then nothing was charged. Without `ret_refusal`
 * it is charged even if there is no room.
 */
int quota_charge(struct quota *, struct quota_event *, const struct quota_reserves *, struct quota_charge *ret,
		 struct quota_refusal *ret_refusal);
/* Refunds. Safe on a receipt that was never charged, and twice. */
void quota_charge_deinit(struct quota_charge *);
