/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/placement.h"

/*
 * To register an event takes the kernel longer than all that is done for it elsewhere, so nobody waits for it here: while
 * the process that holds the enablers is at it, the next calls are read and looked at. Registrations that follow each other
 * on one stream are put together, so that a program's hundreds of events are a handful of messages.
 *
 * Whatever depends on something that is under way waits until nothing is: there is no other rule.
 */

struct job {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	size_t under_way; /* placements, and one until all has been asked */
};

/* Made for the first placement: where there is none, nothing is left under way. */
static struct job *job_of(struct submission *submission)
{
	if (submission->job)
		return submission->job;
	submission->job = malloc(sizeof(*submission->job));
	if (submission->job)
		*submission->job = (struct job){
			.calls = submission->calls,
			.n = submission->n,
			.done = submission->done,
			.data = submission->data,
			.under_way = 1,
		};
	return submission->job;
}

static void job_put(struct job *job)
{
	if (--job->under_way > 0)
		return;
	if (job->done)
		job->done(job->data, job->calls, job->n);
	free(job);
}

void submission_end(struct user_events *user_events, struct submission *submission)
{
	placements_send(user_events, submission);
	placements_settle(user_events);
	/* Its calls are the caller's, who may be about to leave. */
	if (!submission->done)
		placements_finish(user_events);
	if (submission->job)
		job_put(submission->job);
	else if (submission->done)
		submission->done(submission->data, submission->calls, submission->n);
}

static struct placement *placement_new(struct submission *submission, struct event_stream *stream, struct page_map *map)
{
	struct job *job = job_of(submission);
	struct placement *placement = job ? calloc(1, sizeof(*placement)) : NULL;

	if (!placement)
		return NULL;
	placement->job = job;
	placement->stream = stream;
	placement->map = map;
	job->under_way++;
	return placement;
}

int placement_add(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
		  struct slot *slot, struct kernel_call *call)
{
	struct placement *filling = submission->filling;

	if (filling && (filling->n == AT_ONCE || filling->stream != stream || filling->map != slot->holding->map))
		placements_send(user_events, submission);
	if (!submission->filling)
		submission->filling = placement_new(submission, stream, slot->holding->map);
	filling = submission->filling;
	if (!filling)
		return -ENOMEM;
	filling->slots[filling->n] = slot;
	filling->calls[filling->n++] = call;
	return 0;
}

void placements_send(struct user_events *user_events, struct submission *submission)
{
	struct placement *placement = submission->filling;

	if (!placement)
		return;
	submission->filling = NULL;
	user_events->under_way++;
	user_events->abi->place(user_events, placement);
}

static void finish(struct user_events *user_events, struct placement *placement)
{
	struct job *job = placement->job;

	for (size_t i = 0; i < placement->n; i++) {
		if (placement->results[i] == KERNEL_OK)
			user_events_placed(placement->stream, placement->slots[i], placement->calls[i]);
		else
			user_events_not_placed(user_events, placement->stream, placement->slots[i]);
		placement->calls[i]->result = placement->results[i];
	}
	free(placement);
	user_events->under_way--;
	/* Who is told may ask for more before this returns. */
	job_put(job);
}

void placements_settle(struct user_events *user_events)
{
	struct placement *placement;

	while ((placement = TAILQ_FIRST(&user_events->answered))) {
		TAILQ_REMOVE(&user_events->answered, placement, entry);
		if (user_events->abi->settle)
			user_events->abi->settle(user_events, placement);
		finish(user_events, placement);
	}
}

void placements_finish(struct user_events *user_events)
{
	placements_settle(user_events);
	while (user_events->under_way > 0) {
		user_events->abi->wait(user_events);
		placements_settle(user_events);
	}
}
