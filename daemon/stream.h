/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A stream: an open data file that was passed to a client, and the events that are registered on it. It outlives its client
 * as long as a copy of the file is open anywhere; what is registered on it is charged until then.
 */

#include <sys/queue.h>

#include "protocol/base.h"
#include "protocol/table.h"

struct daemon;
struct grant;
struct client;
struct lease;
struct release;

TAILQ_HEAD(stream_list, stream);
LIST_HEAD(stream_references, reference);
LIST_HEAD(lease_list, lease);

struct stream {
	struct daemon *daemon;
	uint32_t number; /* never used again */
	unsigned clients;
	struct stream_references references;
	TAILQ_ENTRY(stream) lingers; /* while clients == 0 */
	UT_hash_handle by_number;
};

/* One event on one stream. It holds its grant. */
struct reference {
	struct stream *stream;
	struct grant *grant;
	uint32_t index;
	struct lease_list leases;
	struct release *release; /* under way in the kernel */
	LIST_ENTRY(reference) in_stream;
	LIST_ENTRY(reference) in_grant;
};

/* The daemon's side of a stream that the kernel has made, with one client. NULL where memory is short. */
struct stream *stream_new(struct daemon *, uint32_t number);

/* The client has gone: with the last one it lingers until the kernel says that no copy is open any more. */
void stream_client_ends(struct stream *);

/* Ends it now and here, whoever may still hold a copy. */
void stream_free(struct stream *);

/* Finds the reference to the grant on the stream, or makes it and takes a reference on the grant. NULL: no memory. */
struct reference *reference_get(struct stream *, struct grant *, uint32_t index);

/* The last lease on it has ended: the kernel is asked to let go of it at once, if it can. */
void reference_release(struct reference *);

/* Asks the kernel about all that linger; what is gone is refunded. Whether any are left. */
bool streams_look(struct daemon *);
