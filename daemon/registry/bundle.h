/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The events that many clients of one tenant registered with identical requests: five hundred workers of a service start
 * alike. The bundle holds each lease once for all its members, and keeps the encoded answer, so that the cost of one more
 * client does not grow with the number of events. A client is in at most one bundle; when it releases a part of it, the rest
 * becomes leases of its own.
 */

#include "daemon/registry/holder.h"
#include "protocol/base/cursor.h"
#include "protocol/base/table.h"
#include "protocol/protocol.h"

enum { BUNDLE_EVENTS_MIN = 8 }; /* fewer cost no more one by one */

/* The user, and the request. */
struct bundle_key {
	size_t size; /* of all that follows */
	uint32_t uid;
	uint8_t request[WIRE_PACKET_MAX]; /* the body of a REGISTER */
};

struct bundle {
	struct holder holder; /* its shares are of the streams that its events are on */
	unsigned generation;  /* of the policy by which it was granted */
	uint8_t *answer;      /* the body of its REGISTERED */
	size_t answer_size;
	size_t bytes; /* of answer and key */
	UT_hash_handle by_key;
	bool listed; /* in the tenant's table: a later bundle may have taken its place there */
	uint8_t key[];
};

/* Whether the client may have one: where files are shared, and as long as it holds nothing. */
bool bundle_may_serve(const struct holder *);
/* Makes the key of a client's request. */
void bundle_key(const struct holder *, struct cursor request, struct bundle_key *ret);

/* The bundle that answers this request, if the client may have all of it. */
struct bundle *bundle_find(const struct holder *, const struct bundle_key *);
/* The client becomes a member. 0, or -ENOMEM. */
int bundle_join(struct bundle *, struct holder *);
/* Turns the leases of the client, which are all that it holds, into a bundle that others find. Without memory there is no bundle. */
void bundle_make(struct holder *, const struct bundle_key *, const void *answer, size_t size);

/*
 * After a restart: turns the client's leases into a bundle, which its other clients join; new clients don't find it. NULL: no
 * memory.
 */
struct bundle *bundle_restore(struct holder *);

/* The client's part of its bundle, if it is in one, becomes its own. 0, -ENOMEM, or -EDQUOT: it may not have as many leases. */
int bundle_split(struct holder *);
/* The client gives up all of it. The bundle ends with its last member. */
void bundle_leave(struct holder *);
