/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Requests that wait until an identical request is answered, and are then made again: the workers of a service that start together
 * are one registration, not hundreds.
 */

#include "daemon/registry/bundle.h"
#include "daemon/registry/tenant.h"

struct parking {
	struct tenant *tenant; /* in whose table it is; NULL: in none */
	struct bundle_key *key;
	struct client_queue clients; /* their requests are still in their sockets */
	UT_hash_handle by_key;
};

/* From now on identical requests find it. Without memory they don't, and none waits. */
void parking_open(struct parking *, struct tenant *, const struct bundle_key *);
struct parking *parking_find(const struct tenant *, const struct bundle_key *);
/* The clients that wait get a turn, in the order in which they came. */
void parking_close(struct parking *);

/* The client's request is read again when the parking is closed. */
void parking_add(struct parking *, struct client *);
/* The client waits no more. Fine if it does not wait. */
void parking_remove(struct client *);
