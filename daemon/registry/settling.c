/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/settling.h"

#include <poll.h>

#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/process/timer.h"

/* All wait equally long, so the list is in order of time. */
void settling_resume(struct registry *registry, double now)
{
	struct settling *first;

	while ((first = TAILQ_FIRST(&registry->settling)) && first->at <= now) {
		TAILQ_REMOVE(&registry->settling, first, entry);
		first->resume(first);
	}
	if (TAILQ_EMPTY(&registry->settling))
		ev_timer_stop(registry->loop, &registry->w_settling);
}

static void settling_on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	settling_resume(container_of(w, struct registry, w_settling), clock_now());
}

void settling_wait(struct registry *registry, struct settling *settling, void (*resume)(struct settling *))
{
	settling->resume = resume;
	settling->at = clock_now() + SETTLE_INTERVAL;
	settling->waits++;
	TAILQ_INSERT_TAIL(&registry->settling, settling, entry);
	timer_repeat(registry->loop, &registry->w_settling, settling_on_timer, SETTLE_INTERVAL);
}

bool settling_goes_on(const struct settling *settling)
{
	return settling->waits < SETTLE_TRIES;
}

int settling_await(struct registry *registry, const bool *under_way)
{
	struct pollfd wanted = { .fd = registry->kernel->fd, .events = POLLIN };
	int r = 0;

	while (*under_way && r == 0) {
		int timeout = registry->kernel->stalled		  ? (int)(1000 * LATER_INTERVAL)
			      : !TAILQ_EMPTY(&registry->settling) ? (int)(1000 * SETTLE_INTERVAL)
								  : -1;

		if (poll(&wanted, 1, timeout) < 0 && errno != EINTR)
			r = -errno;
		if (r == 0)
			r = kernel_dispatch(registry->kernel);
		settling_resume(registry, clock_now());
	}
	/* The calls are the caller's again. */
	if (r < 0)
		kernel_cancel(registry->kernel);
	return r;
}
