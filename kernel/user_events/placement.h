/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Batches of calls, and their registrations that are under way. */

#include "kernel/user_events/user_events.h"

/* A batch. It is answered when all of its calls are. */
struct job {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	size_t under_way;	   /* placements, and one until all calls have been carried out */
	struct placement *filling; /* not sent yet */
};

struct job *job_new(struct kernel_call *calls, size_t n, kernel_done *done, void *data);
/* All calls have been carried out or are under way. */
void job_end(struct user_events *, struct job *);

/* Adds a registration, together with those before it if possible. */
void placement_add(struct user_events *, struct job *, struct event_stream *, struct holding *, struct kernel_call *);
/* The file on which the events are to be registered. */
int placement_file(const struct placement *);
/* Answers all calls of a placement with an error. */
void placement_refuse(struct user_events *, struct placement *, int error);
/* Sends the placement that is being filled. */
void placements_send(struct user_events *, struct job *);
/* Finishes placements that have results. */
void placements_settle(struct user_events *);
/* Waits until nothing is under way. Streams, holdings and slots may have gone afterwards. */
void placements_finish(struct user_events *);
