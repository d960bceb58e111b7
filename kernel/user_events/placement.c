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

struct job *job_new(struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct job *job = keeper_allocate(sizeof(*job));

	*job = (struct job){ .calls = calls, .n = n, .done = done, .data = data, .under_way = 1 };
	return job;
}

static void job_put(struct job *job)
{
	if (--job->under_way > 0)
		return;
	if (job->done)
		job->done(job->data, job->calls, job->n);
	free(job);
}

void job_end(struct user_events *user_events, struct job *job)
{
	placements_send(user_events, job);
	placements_settle(user_events);
	/* Without `done` the calls may end with the caller's function. */
	if (!job->done)
		placements_finish(user_events);
	job_put(job);
}

static struct placement *placement_new(struct user_events *user_events, struct job *job, struct event_stream *stream,
				       struct enabler_process *process)
{
	struct placement *placement = user_events->spare ? user_events->spare : keeper_allocate(sizeof(*placement));

	user_events->spare = NULL;
	job->under_way++;
	placement->job = job;
	placement->stream = stream;
	placement->process = process;
	placement->file = -1;
	placement->again = false;
	placement->n = 0;
	return placement;
}

void placement_add(struct user_events *user_events, struct job *job, struct event_stream *stream,
		   struct holding *holding, struct kernel_call *call)
{
	struct placement *filling = job->filling;
	struct enabler_process *process = holding->process;

	/* Adopted events are not registered together with new ones. */
	if (filling && (filling->n == AT_ONCE || filling->stream != stream || filling->process != process ||
			filling->calls[0]->op != call->op))
		placements_send(user_events, job);
	if (!job->filling)
		job->filling = placement_new(user_events, job, stream, process);
	filling = job->filling;
	filling->holdings[filling->n] = holding;
	filling->calls[filling->n++] = call;
}

int placement_file(const struct placement *placement)
{
	return placement->file >= 0 ? placement->file : placement->stream->fd;
}

void placement_refuse(struct user_events *user_events, struct placement *placement, int error)
{
	for (size_t i = 0; i < placement->n; i++)
		placement->calls[i]->result = error;
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

void placements_send(struct user_events *user_events, struct job *job)
{
	struct placement *placement = job->filling;

	if (!placement)
		return;
	job->filling = NULL;
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
		if (placement->calls[i]->result == KERNEL_OK)
			registration_placed(placement->stream, placement->holdings[i], placement->calls[i]);
		else
			registration_failed(user_events, placement->stream, placement->holdings[i]);
	}
	fd_close(placement->file);
	free(user_events->spare);
	user_events->spare = placement;
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
