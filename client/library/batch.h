/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Registered events, in batches. */

#include "client/library/sentence.h"
#include "protocol/base/base.h"

/*
 * Events that are adjacent in memory, and registered and released together: those that a module declares, or a single one that
 * was registered with userev_register().
 */
struct batch {
	QUEUE_ENTRY(batch) entry;
	struct userev_event *event; /* the first; NULL after the release of a batch with pending answers */
	uint32_t n;
	uint32_t asked;	   /* how many were sent on this connection */
	uint32_t answered; /* how many of those were answered */
	struct sentences sentences;
};

/* A single event, with a copy of its description. */
struct batch_single {
	struct batch batch;
	struct userev_declaration declaration;
	char text[]; /* the description, and the name */
};

QUEUE(batches, batch);

/* All events of a userev. */
struct events {
	bool are_declared;	  /* by modules; else each batch is a batch_single */
	struct stream *ungranted; /* of events without a grant */
	struct batches batches;
	struct batch *unanswered; /* the first batch with events that this connection has not answered */
	struct batch *unasked;	  /* the first batch with events that were not sent on this connection */
	struct batch *scan_batch; /* where userev_changed() continues */
	uint32_t scan_at;	  /* within that batch */
};

#define BATCH_FOREACH(event_, batch)                                                                                   \
	for (struct userev_event *event_ = (batch)->event; event_ && event_ < (batch)->event + (batch)->n; event_++)

/* Its events become pending. `size`: of the batch, or the struct that begins with it. NULL if there is no memory. */
struct batch *batch_new(struct events *, struct userev_event *first, size_t n, size_t size);
/* A batch of this event with a copy of its description. */
struct batch *batch_new_single(struct events *, struct userev_event *, const char *description, unsigned flags);
/* Its events are off and not registered. Pending answers are still awaited. */
void batch_release(struct events *, struct batch *);
/* The same, but no answer is awaited. */
void batch_drop(struct events *, struct batch *);
/* Frees a batch without events. */
void batch_free(struct events *, struct batch *);
/* The batch of a registered event. */
struct batch *batch_of(const struct events *, const struct userev_event *);

/* Calls one of the functions of place.h for all events. */
void batches_place(struct events *, void (*place)(struct userev_event *, const struct stream *ungranted));
/* There is no connection: tests of events look for a daemon, and grants stay in use. */
void batches_suspend(struct events *);
/* For a new connection: all events are to be sent and answered again. */
void batches_ask_anew(struct events *);

/* The state of events may have changed: batches_next_changed() starts a new scan. */
void batches_scan_again(struct events *);
/* An event that was switched since it was last returned; NULL at the end of a scan. */
struct userev_event *batches_next_changed(struct events *);
