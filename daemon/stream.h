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
struct tenant;

TAILQ_HEAD(stream_list, stream);
LIST_HEAD(lease_list, lease);

struct stream {
	struct daemon *daemon;
	struct tenant *tenant; /* whose page it needs */
	uint32_t number;
	unsigned clients;
	bool asked;		      /* the kernel, whether it is still open */
	struct reference *references; /* table by grant */
	TAILQ_ENTRY(stream) lingers;  /* while clients == 0 */
	UT_hash_handle by_number;
};

/* One event on one stream. It holds its grant. */
struct reference {
	struct stream *stream;
	struct grant *grant;
	uint32_t index;
	struct lease_list leases;
	struct release *release; /* under way in the kernel */
	LIST_ENTRY(reference) in_grant;
	UT_hash_handle by_grant;
};

/* A number that is not in use; 0 never is. */
uint32_t stream_next_number(struct daemon *);

/* The daemon's side of a stream that the kernel has made, with one client. It holds its tenant. NULL: no memory. */
struct stream *stream_new(struct tenant *, uint32_t number);

/* The client has gone: with the last one it lingers until the kernel says that no copy is open any more. */
void stream_client_ends(struct stream *);

/* Ends it now and here, whoever may still hold a copy. */
void stream_free(struct stream *);

/* Finds the reference to the grant on the stream, or makes it and takes a reference on the grant. NULL: no memory. */
struct reference *reference_get(struct stream *, struct grant *, uint32_t index);

/* The last lease on each has ended: the kernel is asked, once, to let go of them now, as far as it can. */
void references_release(struct reference *const *, size_t n);

/* Asks the kernel about all that linger; what is gone is refunded. Whether any are left. */
bool streams_look(struct daemon *);
