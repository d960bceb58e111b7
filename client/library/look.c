/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a program's events come alive without a thread and without the program's doing: a test of an event that no daemon has
 * granted yet comes here, and so does a write to a stream that leads nowhere, or for an event on an abandoned page. Now and then that is a reason to see
 * what the daemon has said, or whether there is one. It never waits, neither for the daemon nor for another thread.
 */

#include "client/library/library.h"

enum {
	SOON_MS = 1,	/* while an answer is under way */
	LATER_MS = 100, /* where all is well: a write that failed had another reason */
};

/* After a fork, page and streams are still good: that is all that an event needs. */
static bool goes_on_without_us(struct userev *userev)
{
	if (!userev->borrowed || userev->unanswered || userev->watching)
		return false;
	streams_verify(&userev->streams);
	if (!streams_lead_somewhere(&userev->streams) || (userev->page && page_is_abandoned(userev)))
		return false;
	batches_resume(userev);
	return true;
}

static uint32_t wait_until_next(const struct userev *userev, int r)
{
	if (r == -EAGAIN && userev->n_asked > 0)
		return SOON_MS;
	if (r == 0)
		return LATER_MS;
	return MAX((uint32_t)deadline_left(userev->not_before), (uint32_t)SOON_MS);
}

/* What seems to be further away has long passed: the milliseconds begin anew every 49 days. */
static bool is_too_early(const struct userev *userev, uint32_t now)
{
	const uint32_t left = atomic_load_explicit(&userev->look_at, memory_order_relaxed) - now;

	return left > 0 && left <= PAUSE_MAX_MS;
}

void connection_look(struct userev *userev)
{
	const uint32_t now = about_now_ms();
	struct entered entered;
	int r = 0;

	if (userev->sealed || is_too_early(userev, now))
		return;
	if (!library_enter_quietly(&entered))
		return;
	if (!goes_on_without_us(userev))
		r = connection_advance(userev, 0);
	atomic_store_explicit(&userev->look_at, now + wait_until_next(userev, r), memory_order_relaxed);
	library_leave_quietly(&entered);
}

_public_ bool userev_awaken(const struct userev_event *event)
{
	const struct stream *stream = stream_at(place_of(event));

	if (!stream)
		return false;
	connection_look(stream->userev);
	return place_is_on(place_of(event));
}

_public_ void userev_seal(struct userev *userev)
{
	ENTER_LIBRARY;

	userev = library_meant(userev);
	if (!userev)
		return;
	userev->sealed = true;
	streams_verify(&userev->streams);
	batches_resume(userev);
}
