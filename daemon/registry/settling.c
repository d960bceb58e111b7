/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/settling.h"

#include <poll.h>

#include "daemon/limits.h"
#include "daemon/process/clock.h"

struct settling {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	double at; /* clock_now() */
	TAILQ_ENTRY(settling) entry;
};

size_t settling_count_final(const struct kernel_call *calls, size_t n, double until)
{
	size_t final = 0;

	if (clock_now() >= until)
		return n;
	while (final < n && calls[final].result != KERNEL_E_SETTLING)
		final++;
	return final;
}

bool settling_ask(struct registry *registry, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct settling *settling = malloc(sizeof(*settling));

	if (!settling)
		return false;
	*settling = (struct settling){ calls, n, done, data, .at = clock_now() + SETTLE_INTERVAL };
	TAILQ_INSERT_TAIL(&registry->settling, settling, entry);
	ev_timer_again(registry->loop, &registry->w_settling);
	return true;
}

static struct settling settling_take_first(struct registry *registry)
{
	struct settling *first = TAILQ_FIRST(&registry->settling), settling = *first;

	TAILQ_REMOVE(&registry->settling, first, entry);
	free(first);
	return settling;
}

/* All wait equally long, so the list is in order of time. */
void settling_look(struct registry *registry)
{
	double now = clock_now();

	while (!TAILQ_EMPTY(&registry->settling) && TAILQ_FIRST(&registry->settling)->at <= now) {
		struct settling settling = settling_take_first(registry);

		kernel_submit(registry->kernel, settling.calls, settling.n, settling.done, settling.data);
	}
	if (TAILQ_EMPTY(&registry->settling))
		ev_timer_stop(registry->loop, &registry->w_settling);
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
		settling_look(registry);
	}
	/* The calls are the caller's again. */
	if (r < 0)
		kernel_cancel(registry->kernel);
	return r;
}

void settling_end(struct registry *registry)
{
	while (!TAILQ_EMPTY(&registry->settling)) {
		struct settling settling = settling_take_first(registry);

		for (size_t i = 0; i < settling.n; i++)
			if (settling.calls[i].result == KERNEL_E_SETTLING)
				settling.calls[i].result = KERNEL_E_NAME_TAKEN;
		settling.done(settling.data, settling.calls, settling.n);
	}
}

static void settling_on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	settling_look(container_of(w, struct registry, w_settling));
}

void settling_init(struct registry *registry)
{
	ev_timer_init(&registry->w_settling, settling_on_timer, 0., SETTLE_INTERVAL);
}

void settling_deinit(struct registry *registry)
{
	ev_timer_stop(registry->loop, &registry->w_settling);
}
