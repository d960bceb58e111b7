/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/settling.h"

#include "daemon/daemon.h"

struct settling {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	double at; /* daemon_now() */
	TAILQ_ENTRY(settling) entry;
};

size_t settling_count_final(const struct kernel_call *calls, size_t n, double until)
{
	size_t final = 0;

	if (daemon_now() >= until)
		return n;
	while (final < n && calls[final].result != KERNEL_E_SETTLING)
		final++;
	return final;
}

bool settling_ask(struct daemon *daemon, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct settling *settling = malloc(sizeof(*settling));

	if (!settling)
		return false;
	*settling = (struct settling){ calls, n, done, data, .at = daemon_now() + SETTLE_INTERVAL };
	TAILQ_INSERT_TAIL(&daemon->settling, settling, entry);
	ev_timer_again(daemon->loop, &daemon->w_settling);
	return true;
}

static struct settling take_first(struct daemon *daemon)
{
	struct settling *first = TAILQ_FIRST(&daemon->settling), settling = *first;

	TAILQ_REMOVE(&daemon->settling, first, entry);
	free(first);
	return settling;
}

/* All wait equally long, so the list is in order of time. */
void settling_look(struct daemon *daemon)
{
	double now = daemon_now();

	while (!TAILQ_EMPTY(&daemon->settling) && TAILQ_FIRST(&daemon->settling)->at <= now) {
		struct settling settling = take_first(daemon);

		kernel_submit(daemon->kernel, settling.calls, settling.n, settling.done, settling.data);
	}
	if (TAILQ_EMPTY(&daemon->settling))
		ev_timer_stop(daemon->loop, &daemon->w_settling);
}

void settling_end(struct daemon *daemon)
{
	while (!TAILQ_EMPTY(&daemon->settling)) {
		struct settling settling = take_first(daemon);

		for (size_t i = 0; i < settling.n; i++)
			if (settling.calls[i].result == KERNEL_E_SETTLING)
				settling.calls[i].result = KERNEL_E_NAME_TAKEN;
		settling.done(settling.data, settling.calls, settling.n);
	}
}

static void on_timer(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	settling_look(container_of(w, struct daemon, w_settling));
}

void settling_init(struct daemon *daemon)
{
	ev_timer_init(&daemon->w_settling, on_timer, 0., SETTLE_INTERVAL);
}

void settling_deinit(struct daemon *daemon)
{
	ev_timer_stop(daemon->loop, &daemon->w_settling);
}
