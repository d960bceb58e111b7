/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Where libev has no memory, or cannot wait, it calls abort(). The daemon exits with a line in the log instead: the keeper and the
 * ledger have all that the next daemon needs.
 *
 * Where the kernel cannot watch one more fd (ENOSPC: max_user_watches), libev stops its watcher and calls it with EV_ERROR, which the
 * watcher answers by dropping that connection. But libev only finds out just before it waits, and would wait before that call: so
 * epoll_wait() does not wait then.
 */

#include "daemon/process/loop.h"

#include <ev.h>
#include <sys/epoll.h>

#include "daemon/process/log.h"
#include "protocol/base/base.h"

enum { EVENTS_MAX = 64 /* in one turn of the loop */ };

int loop_epoll = -1;
static struct ev_loop *loop;
static struct epoll_event found[EVENTS_MAX]; /* with LOOP_EVENT_TAG */
static int n_found, n_passed_on;
static bool refused; /* the kernel did not watch an fd: a watcher is to be called */

/*
 * libev calls this in place of the C library's. It would handle as many events in one turn as the kernel has: ten thousand clients that
 * send at the same time would take tens of milliseconds.
 */
__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events, int n, int timeout)
{
	int kept = 0, ready;

	refused = loop && ev_pending_count(loop) > 0;
	ready = epoll_pwait(epoll, events, MIN(n, (int)EVENTS_MAX), refused ? 0 : timeout, NULL);

	/* The first call is that of loop_new(). */
	if (loop_epoll < 0)
		loop_epoll = epoll;
	if (epoll != loop_epoll || ready < 0)
		return ready;
	n_found = n_passed_on = 0;
	for (int i = 0; i < ready; i++)
		if (events[i].data.u64 & LOOP_EVENT_TAG)
			found[n_found++] = events[i];
		else
			events[kept++] = events[i];
	return kept;
}

bool loop_next_event(struct epoll_event *ret)
{
	if (n_passed_on == n_found)
		return false;
	*ret = found[n_passed_on++];
	ret->data.u64 &= ~LOOP_EVENT_TAG;
	return true;
}

void loop_forget(int fd)
{
	epoll_ctl(loop_epoll, EPOLL_CTL_DEL, fd, NULL);
}

static _Noreturn void loop_exit(const char *message)
{
	log_error("can't go on: %s: %s", message, strerror(errno));
	exit(EXIT_FAILURE);
}

static void *loop_allocate(void *old, long size)
{
	void *memory = NULL;

	if (size == 0)
		free(old);
	else if (!(memory = realloc(old, (size_t)size)))
		loop_exit("no memory for the loop");
	return memory;
}

void loop_init(void)
{
	ev_set_allocator(loop_allocate);
	ev_set_syserr_cb(loop_exit);
}

struct ev_loop *loop_new(void)
{
	static ev_async any;

	loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (!loop) {
		log_error("cannot create an event loop: libev can't use epoll");
		exit(EXIT_FAILURE);
	}
	loop_epoll = -1;
	/* The only fd so far is libev's own, for signals and threads: the daemon cannot do without it. */
	ev_async_init(&any, NULL);
	ev_async_start(loop, &any);
	ev_run(loop, EVRUN_NOWAIT);
	if (refused) {
		log_error("cannot create an event loop: the kernel watches no more fds for this user "
			  "(fs.epoll.max_user_watches)");
		exit(EXIT_FAILURE);
	}
	return loop;
}
