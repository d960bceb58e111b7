/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Calls that are carried out, and what of them is under way meanwhile. */

#include "kernel/user_events/user_events.h"

struct job;

/* While its calls are gone through. Zeros but for what they are. */
struct submission {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	struct job *job;	   /* what is left of it while some is under way; NULL: nothing has been */
	struct placement *filling; /* not sent yet */
};

/* All of it has been asked. It is answered as soon as nothing of it is under way any more. */
void submission_end(struct user_events *, struct submission *);

/* A new holding is to be registered, together with those before it if possible. 0, or -ENOMEM. */
int placement_add(struct user_events *, struct submission *, struct event_stream *, struct slot *,
		  struct kernel_call *);
/* The file on which it is to be registered. */
int placement_file(const struct placement *);
/* No more is put to those before. */
void placements_send(struct user_events *, struct submission *);
/* Finishes those that have results. */
void placements_settle(struct user_events *);
/* Waits until nothing is under way any more. Streams, holdings and slots may have gone then. */
void placements_finish(struct user_events *);
