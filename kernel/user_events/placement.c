/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/placement.h"

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/registration.h"
#include "kernel/user_events/stream.h"

/*
 * The kernel takes longer to register an event than everything else takes, so the keeper does not wait for it: while an enabler
 * process registers, the keeper reads and checks the next calls. Registrations that follow each other on one stream are sent
 * together, so hundreds of events of a program are a handful of messages.
 *
 * A call that depends on something under way waits until nothing is under way. There is no other rule.
 */

struct job {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	size_t under_way; /* placements, and one until all calls have been looked at */
};

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
	/* Without `done` the calls may end with the caller's function. */
	if (!submission->done)
		placements_finish(user_events);
	if (submission->job)
		job_put(submission->job);
	else if (submission->done)
		submission->done(submission->data, submission->calls, submission->n);
}

static struct placement *placement_new(struct submission *submission, struct event_stream *stream, struct page_map *map)
{
	struct placement *placement = keeper_allocate(sizeof(*placement));

	if (!submission->job) {
		submission->job = keeper_allocate(sizeof(*submission->job));
		*submission->job = (struct job){
			.calls = submission->calls,
			.n = submission->n,
			.done = submission->done,
			.data = submission->data,
			.under_way = 1,
		};
	}
	submission->job->under_way++;
	placement->job = submission->job;
	placement->stream = stream;
	placement->map = map;
	placement->file = -1;
	return placement;
}

void placement_add(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
		   struct slot *slot, struct kernel_call *call)
{
	struct placement *filling = submission->filling;
	struct page_map *map = slot->holding->map;

	/* Adopted events are not registered together with new ones. */
	if (filling && (filling->n == AT_ONCE || filling->stream != stream || filling->map != map ||
			filling->calls[0]->op != call->op))
		placements_send(user_events, submission);
	if (!submission->filling)
		submission->filling = placement_new(submission, stream, map);
	filling = submission->filling;
	filling->slots[filling->n] = slot;
	filling->calls[filling->n++] = call;
}

int placement_file(const struct placement *placement)
{
	return placement->file >= 0 ? placement->file : placement->stream->fd;
}

void placement_refuse(struct user_events *user_events, struct placement *placement, int error)
{
	for (size_t i = 0; i < placement->n; i++)
		placement->results[i] = error;
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

void placements_send(struct user_events *user_events, struct submission *submission)
{
	struct placement *placement = submission->filling;

	if (!placement)
		return;
	submission->filling = NULL;
	user_events->under_way++;
	placement->stream->under_way++;
	/* Adopted events are registered on a file of our own, which is closed afterwards: only their enablers stay. */
	if (placement->calls[0]->op == KERNEL_ADOPT) {
		placement->file = data_file_open(&user_events->mounts);
		if (placement->file < 0) {
			placement_refuse(user_events, placement, placement->file);
			return;
		}
	}
	user_events->abi->place(user_events, placement);
}

static void placement_finish(struct user_events *user_events, struct placement *placement)
{
	struct job *job = placement->job;

	placement->stream->under_way--;
	stream_check_indexes(placement->stream);
	for (size_t i = 0; i < placement->n; i++) {
		if (placement->results[i] == KERNEL_OK)
			registration_placed(placement->stream, placement->slots[i], placement->calls[i]);
		else
			registration_failed(user_events, placement->stream, placement->slots[i]);
		placement->calls[i]->result = placement->results[i];
	}
	fd_close(placement->file);
	free(placement);
	user_events->under_way--;
	/* Last, because `done` may submit more calls. */
	job_put(job);
}

void placements_settle(struct user_events *user_events)
{
	struct placement *placement;

	while ((placement = TAILQ_FIRST(&user_events->answered))) {
		TAILQ_REMOVE(&user_events->answered, placement, entry);
		if (user_events->abi->settle)
			user_events->abi->settle(user_events, placement);
		placement_finish(user_events, placement);
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
