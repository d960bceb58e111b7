/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Registered events, in batches. */

#include "client/library/sentence.h"

struct userev;

/*
 * Events that are adjacent in memory, and registered and released together: those that a module declares, or a single one that
 * was registered with userev_register().
 */
struct batch {
	TAILQ_ENTRY(batch) entry;
	struct userev_event *event; /* the first; NULL after the release of a batch with pending answers */
	uint32_t n;
	uint32_t asked;	   /* how many were sent on this connection */
	uint32_t answered; /* how many of those were answered */
	struct sentences sentences;
};

TAILQ_HEAD(batches, batch);

#define BATCH_FOREACH(event_, batch)                                                                                   \
	for (struct userev_event *event_ = (batch)->event; event_ && event_ < (batch)->event + (batch)->n; event_++)

/* Takes over the batch. Its events become pending. */
void batch_add(struct userev *, struct batch *, struct userev_event *first, size_t n);
/* Its events are off and not registered. Granted bits are released at the daemon later. */
void batch_release(struct userev *, struct batch *);
/* The same, without releasing anything at the daemon. */
void batch_drop(struct userev *, struct batch *);
/* Frees a batch without events. */
void batch_free(struct userev *, struct batch *);
/* The batch of a registered event. */
struct batch *batch_of(const struct userev_event *);

/* There is no connection: tests of events look for a daemon, and grants stay in use. */
void batches_suspend(struct userev *);
/* The opposite: grants are valid, events without a grant are off. */
void batches_resume(struct userev *);
/* For a new connection: all events are to be sent and answered again. */
void batches_ask_anew(struct userev *);
/* For a new page: all events are off until they are answered. */
void batches_wait(struct userev *);
