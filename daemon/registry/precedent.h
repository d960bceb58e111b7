/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The last long request of a tenant whose events were all there: the workers of a service start alike. For an identical request
 * nothing is decided or encoded again, which costs a tenth of deciding event by event.
 */

#include "daemon/registry/holder.h"
#include "protocol/base/cursor.h"

enum { PRECEDENT_EVENTS_MIN = 8 }; /* fewer cost no more one by one */

struct precedent {
	uid_t uid;
	unsigned generation;	       /* of the policy by which it was granted */
	uint64_t ended;		       /* the tenant's count, by then; after a change the references may be gone */
	struct cursor request, answer; /* bodies of REGISTER and REGISTERED */
	size_t n;
	struct reference *reference[]; /* on shared streams; then the bytes of both */
};

/* Replaces the tenant's. Without memory there is none. */
void precedent_set(struct holder *, struct cursor request, struct cursor answer, struct reference *const *, size_t n);
/* The precedent for this request, if the client may have all of it and holds nothing yet. NULL: there is none. */
const struct precedent *precedent_find(const struct holder *, struct cursor request);
