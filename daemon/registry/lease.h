/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client's claim on one event of its tenant: a reference is in the table of the client's leases. */

#include "daemon/registry/holder.h"

/*
 * Records the client's claim, and its share of the stream, unless it leases the event already, perhaps on another stream. Returns the
 * reference that it leases. NULL: no memory.
 */
struct reference *lease_get(struct holder *, struct reference *);
/* The reference that the client leases; NULL: it has no lease of that event. */
struct reference *lease_by_bit(const struct holder *, uint32_t bit);

/* The client releases it. Whether that was the last lease: then it is for references_release(). */
bool lease_release(struct holder *, struct reference *);

/* At most n of them: the client has disconnected. Its events stay registered while a copy of their data file is open. */
void leases_drop(struct holder *, unsigned n);
/* The same for the leases on one stream alone. */
void leases_drop_on(struct holder *, const struct stream *);
