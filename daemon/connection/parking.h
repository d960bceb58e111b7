/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Requests that wait until another is answered that asks for the same, and are then made again: the workers of a service that
 * start together are one registration, not hundreds.
 */

#include <sys/queue.h>

#include "protocol/base/table.h"
#include "protocol/wire.h"

struct bundle_key;
struct client;
struct parked;
struct tenant;

TAILQ_HEAD(parked_queue, parked);

struct parking {
	struct tenant *tenant; /* in whose table it is; NULL: in none */
	struct bundle_key *key;
	struct parked_queue parked;
	UT_hash_handle by_key;
};

/* From now on identical requests find it. Without memory they don't, and none waits. */
void parking_open(struct parking *, struct tenant *, const struct bundle_key *);
struct parking *parking_find(const struct tenant *, const struct bundle_key *);
/* The clients that wait get a turn, in the order in which they came. */
void parking_close(struct parking *);

/* The client's request is read again then: meanwhile it stays in its socket. False: no memory. */
bool park(struct client *, struct parking *);
