/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A tenant ends with its last connection, and would begin with a full bucket whenever it comes again, and with a line in the
 * log for each refusal: so its level is kept until all its tokens are back, and until the next line is due.
 */

#include "daemon/registry/resting.h"

#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/process/timer.h"

static void resting_remove(struct registry *registry, struct level *level)
{
	TAILQ_REMOVE(&registry->resting, level, rests);
	registry->n_resting--;
	level->rests_already = false;
	level_unref(level);
}

static void resting_on_timer(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct registry *registry = container_of(w, struct registry, w_rest);
	struct level *level, *next;
	double now = clock_now();

	for (level = TAILQ_FIRST(&registry->resting); level; level = next) {
		next = TAILQ_NEXT(level, rests);
		if (level_is_rested(level, now))
			resting_remove(registry, level);
	}
	if (TAILQ_EMPTY(&registry->resting))
		ev_timer_stop(loop, w);
}

void resting_add(struct registry *registry, struct level *level)
{
	if (level->rests_already || level_is_rested(level, clock_now()))
		return;
	if (registry->n_resting == RESTING_MAX)
		resting_remove(registry, TAILQ_FIRST(&registry->resting));
	level_ref(level);
	TAILQ_INSERT_TAIL(&registry->resting, level, rests);
	registry->n_resting++;
	level->rests_already = true;
	timer_repeat(registry->loop, &registry->w_rest, resting_on_timer, REST_INTERVAL);
}

void resting_clear(struct registry *registry)
{
	while (!TAILQ_EMPTY(&registry->resting))
		resting_remove(registry, TAILQ_FIRST(&registry->resting));
}
