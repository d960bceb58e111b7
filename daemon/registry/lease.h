/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A claim on one event of a tenant, by one client or by all members of a bundle. */

#include <sys/queue.h>

#include "protocol/base/table.h"

struct holder;
struct reference;

struct lease {
	struct holder *holder; /* a client's, or a bundle's */
	struct reference *reference;
	uint32_t bit;
	uint32_t entry; /* in the ledger */
	LIST_ENTRY(lease) in_reference;
	UT_hash_handle by_bit;
};

/* Finds or records the client's claim, and its share of the stream. NULL where memory is short. */
struct lease *lease_get(struct holder *, struct reference *);
/* The client's own, or its bundle's. */
struct lease *lease_by_bit(const struct holder *, uint32_t bit);

/* How many claims a client has, of its own and in its bundle. */
unsigned leases_count(const struct holder *);

/* The client releases it. Returns the reference if it was the last lease on it, for references_release(). */
struct reference *lease_release(struct lease *);

/* The client has disconnected: the event stays registered while a copy of its data file is open. */
void lease_drop(struct lease *);
