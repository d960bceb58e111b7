/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * disable --wait: until nobody traces the events any more, and who was about to write a record has done so. Two things can
 * still bring a record when an event has been switched off: another tracer, which is waited for; and a write that has
 * found out that it is to be recorded, but has not come to that, on whichever CPU: tracing_ops.settle() waits for those.
 */

#include "client/userevctl/quiet.h"

#include <time.h>

enum { LOOK_MS = 50, NOTE_MS = 2000 };

struct still_on {
	char name[WIRE_DESCRIPTION_MAX + 1]; /* of the first one; "": none is */
	unsigned used_by;
};

static void note_on(void *data, const struct event_view *event)
{
	struct still_on *still = data;

	if (!event->on || still->name[0] != '\0')
		return;
	string_copy(still->name, sizeof(still->name), event->shown);
	still->used_by = event->used_by;
}

static const char *tracers(const struct tracing *tracing, unsigned used_by)
{
	if (!tracing->kernel)
		return "another 'userevctl tail'";
	if (used_by & USED_BY_PERF)
		return used_by & USED_BY_FTRACE ? "ftrace and perf" : "perf";
	return used_by & USED_BY_FTRACE ? "ftrace: another instance, or a trigger" : "another tracer";
}

static void tell(const struct tracing *tracing, const struct still_on *still, const char *end)
{
	ctl_note("userevctl: '%s' is still on, for %s%s", make_safe(still->name).text, tracers(tracing, still->used_by),
		 end);
}

static void pause_ms(unsigned ms)
{
	const struct timespec time = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&time, NULL);
}

/* Until none of them is on: an enum exit_code. */
static int wait_for_tracers(struct tracing *tracing, const struct quiet_wish *wish)
{
	uint64_t waited = 0;

	for (;;) {
		struct still_on still = { 0 };
		int r = tracing->ops->list(tracing, wish->patterns, wish->n, false, note_on, &still);

		if (r != EXIT_DONE || still.name[0] == '\0')
			return r;
		if (wish->timeout_ms > 0 && waited >= wish->timeout_ms) {
			tell(tracing, &still, ".");
			return EXIT_REFUSED;
		}
		if (waited == NOTE_MS)
			tell(tracing, &still, ": waiting for its end.");
		pause_ms(LOOK_MS);
		waited += LOOK_MS;
	}
}

int quiet_wait(struct tracing *tracing, const struct quiet_wish *wish)
{
	int r = wait_for_tracers(tracing, wish);

	return r == EXIT_DONE && tracing->ops->settle ? tracing->ops->settle(tracing) : r;
}
