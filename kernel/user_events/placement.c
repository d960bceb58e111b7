/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/placement.h"

#include "kernel/user_events/stream.h"

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
	placement->file = -1;
	job->under_way++;
	return placement;
}

/* What is adopted is not registered together with what is new. */
static bool goes_with(const struct placement *placement, const struct event_stream *stream, const struct slot *slot,
		      const struct kernel_call *call)
{
	return placement->n < AT_ONCE && placement->stream == stream && placement->map == slot->holding->map &&
	       placement->calls[0]->op == call->op;
}

int placement_add(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
		  struct slot *slot, struct kernel_call *call)
{
	struct placement *filling = submission->filling;

	if (filling && !goes_with(filling, stream, slot, call))
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

int placement_file(const struct placement *placement)
{
	return placement->file >= 0 ? placement->file : placement->stream->fd;
}

/* For what is adopted a file of our own is opened, and closed when it is done: the enablers are what is left of it. */
static int open_file(const struct user_events *user_events, struct placement *placement)
{
	if (placement->calls[0]->op != KERNEL_ADOPT)
		return 0;
	placement->file = data_file_open(&user_events->mounts);
	return MIN(placement->file, 0);
}

static void refuse(struct user_events *user_events, struct placement *placement, int error)
{
	for (size_t i = 0; i < placement->n; i++)
		placement->results[i] = error;
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

void placements_send(struct user_events *user_events, struct submission *submission)
{
	struct placement *placement = submission->filling;
	int r;

	if (!placement)
		return;
	submission->filling = NULL;
	user_events->under_way++;
	placement->stream->under_way++;
	r = open_file(user_events, placement);
	if (r < 0)
		refuse(user_events, placement, r);
	else
		user_events->abi->place(user_events, placement);
}

static void finish(struct user_events *user_events, struct placement *placement)
{
	struct job *job = placement->job;

	placement->stream->under_way--;
	stream_check_indexes(placement->stream);
	for (size_t i = 0; i < placement->n; i++) {
		if (placement->results[i] == KERNEL_OK)
			user_events_placed(placement->stream, placement->slots[i], placement->calls[i]);
		else
			user_events_not_placed(user_events, placement->stream, placement->slots[i]);
		placement->calls[i]->result = placement->results[i];
	}
	fd_close(placement->file);
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
