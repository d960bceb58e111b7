/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The machine's capacity, and the part of it that is reserved. Pure arithmetic but for a reserve's memory. */

#include "daemon/quota/quota.h"

/* Begins as zeros and the capacity. */
struct machine {
	uint32_t capacity;	     /* may change at any time, also below the number held */
	uint32_t common;	     /* events in the common pool, each counted once for all its holders */
	uint32_t filled;	     /* in all reserves */
	uint64_t claimed;	     /* by all reserves, filled or not */
	struct quota_shared *shared; /* of the common pool; NULL: the kernel counts nothing there */
};

/*
 * A number of events that is kept free for the tenants of a section of the policy. When its maximum shrinks, the filled part
 * stays claimed until it is refunded.
 */
struct reserve {
	struct machine *machine;
	uint32_t maximum;
	uint32_t filled;
	uint32_t claimed;	     /* of the machine */
	struct quota_shared *shared; /* as the machine's */
	unsigned references;
	struct reserve *files; /* a reserve of events has one of data files beside it; NULL: none */
};

/* Everything must have come back: asserted. */
void machine_deinit(struct machine *);
/* The capacity has changed. */
void machine_publish(struct machine *);
void machine_share(struct machine *, struct quota_shared *);
/* The part of the capacity outside of all reserves. */
uint32_t machine_pool(const struct machine *);
/* How much of that is left. */
uint32_t machine_room(const struct machine *);

/* With one reference, which the caller owns; each charge that fills it has another. NULL: no memory. */
struct reserve *reserve_new(struct machine *, uint32_t maximum);
struct reserve *reserve_ref(struct reserve *);
/* Returns NULL. The last reference returns the claimed part to the machine. */
struct reserve *reserve_unref(struct reserve *);
void reserve_set_maximum(struct reserve *, uint32_t maximum);
void reserve_share(struct reserve *, struct quota_shared *);
/* The kernel has counted something there, or no more. */
void reserve_update(struct reserve *);
bool reserve_has_room(const struct reserve *);

/* For charge.c. */
void reserve_fill(struct reserve *);
void reserve_empty(struct reserve *);
