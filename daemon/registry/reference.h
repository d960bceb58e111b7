/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One event on one stream. */

#include "daemon/registry/registry.h"

/* It holds its grant. */
struct reference {
	uint64_t bit;	       /* of its grant: the key in the tables of a stream's references and a client's leases */
	struct stream *stream; /* NULL: a grant's first reference that is not used */
	struct grant *grant;
	uint32_t index;
	uint32_t entry; /* in the ledger */
	unsigned leases;
	bool releasing; /* the kernel is asked to unregister it */
	LIST_ENTRY(reference) in_grant;
};

/*
 * Finds the reference to the grant on the stream, or makes it and takes a reference on the grant. NULL: no memory. `asked` is the place in
 * the ledger of the question to the kernel (ENTRY_ASKED), or 0. A reference without an entry takes over the entry at that place, and sets `asked` to 0.
 */
struct reference *reference_get(struct stream *, struct grant *, uint32_t index, uint32_t *asked);
/* Whether it is there at all; and the reference, unless it is being released. */
struct reference *reference_there(const struct stream *, const struct grant *);
struct reference *reference_find(const struct stream *, const struct grant *);
void reference_free(struct reference *);

/* The last lease on each has ended: asks the kernel, in one batch, to unregister them as far as possible. */
void references_release(struct reference *const *, size_t n);
