/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One client's claim on one event of its tenant. */

#include <sys/queue.h>

#include "protocol/table.h"

struct client;
struct reference;

struct lease {
	struct client *client;
	struct reference *reference;
	uint32_t bit;
	LIST_ENTRY(lease) in_reference;
	UT_hash_handle by_bit;
};

/* Finds or records the client's claim, and its share of the stream. NULL where memory is short. */
struct lease *lease_get(struct client *, struct reference *);
struct lease *lease_by_bit(struct client *, uint32_t bit);

/* The client gives it back: the reference, if nobody else claims it, for references_release(). */
struct reference *lease_release(struct lease *);

/* The client has gone: what it held stays registered while its stream is open somewhere. */
void lease_drop(struct lease *);
