/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the machine has room for, and what of it is set aside. Pure arithmetic but for a reserve's memory. */

#include "protocol/base/base.h"

struct machine {
	uint32_t capacity; /* may change at any time, also below what is held */
	uint32_t common;   /* events in the common pool, each once, whoever holds it */
	uint32_t filled;   /* in all reserves */
	uint64_t claimed;  /* by all reserves, filled or not */
};

/*
 * A number of events that nobody else can use up; for who may fill it, see the policy. What of it was filled when its
 * maximum sank stays claimed until it comes back.
 */
struct reserve {
	struct machine *machine;
	uint32_t maximum;
	uint32_t filled;
	unsigned references;
	struct reserve *files; /* a reserve of events has one of data files beside it; NULL: none */
};

void machine_init(struct machine *, uint32_t capacity);
/* Everything must have come back: asserted. */
void machine_deinit(struct machine *);
/* What all reserves leave for who has none. */
uint32_t machine_pool(const struct machine *);
/* How much of that is left. */
uint32_t machine_room(const struct machine *);

/* With one reference, which the caller owns; each charge that fills it has another. NULL: no memory. */
struct reserve *reserve_new(struct machine *, uint32_t maximum);
struct reserve *reserve_ref(struct reserve *);
/* Returns NULL. The last one gives what it claimed back to the machine. */
struct reserve *reserve_unref(struct reserve *);
void reserve_set_maximum(struct reserve *, uint32_t maximum);
bool reserve_has_room(const struct reserve *);

/* For charge.c. */
void reserve_fill(struct reserve *);
void reserve_empty(struct reserve *);
