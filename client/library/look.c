/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Without a thread, the library gets to run when the program tests an event without a grant, when writing a record fails, and when
 * a record is written while the page is abandoned. At intervals these connect, and process the daemon's packets. They never wait,
 * neither for the daemon nor for the lock.
 */

#include "client/library/look.h"
#include "client/library/clock.h"
#include "client/library/lock.h"
#include "client/library/module.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/public.h"
#include "client/library/session.h"

enum {
	SOON_MS = 1,	/* answers are pending */
	LATER_MS = 100, /* nothing to do: the failed write had another reason */
};

/* After a fork the child's events need only page and streams, if these are still good. */
static bool look_can_do_without(struct userev *userev)
{
	if (userev->state != CONNECTION_INHERITED || userev->unanswered || userev->watching)
		return false;
	streams_verify(&userev->streams);
	if (!streams_are_open(&userev->streams) || (userev->page && page_is_abandoned(userev->page)))
		return false;
	batches_resume(userev);
	return true;
}

void look_for_daemon(struct userev *userev)
{
	const uint32_t now = clock_coarse_ms();
	const uint32_t left = atomic_load_explicit(&userev->look_at, memory_order_relaxed) - now;
	uint32_t pause = LATER_MS;
	struct lock lock;
	int r = 0;

	/* `left` wraps around: a larger value is in the past. */
	if (userev->sealed || (left > 0 && left <= SESSION_PAUSE_MAX_MS) || !lock_try(&lock))
		return;
	if (!look_can_do_without(userev))
		r = session_advance(userev, 0);
	if (r == -EAGAIN && userev->n_pending > 0)
		pause = SOON_MS;
	else if (r != 0)
		pause = MAX((uint32_t)clock_left_ms(userev->not_before), (uint32_t)SOON_MS);
	atomic_store_explicit(&userev->look_at, now + pause, memory_order_relaxed);
	lock_leave_try(&lock);
}

_public_ bool userev_awaken(const struct userev_event *event)
{
	const struct stream *stream = stream_at(place_of(event));

	if (!stream)
		return false;
	look_for_daemon(stream->userev);
	return place_is_on(place_of(event));
}

_public_ void userev_seal(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = module_resolve(userev);
	if (!userev)
		return;
	userev->sealed = true;
	streams_verify(&userev->streams);
	batches_resume(userev);
}
