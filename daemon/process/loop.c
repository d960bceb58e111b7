/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * libev has no errors to return. Where it finds no memory, or can't wait, it ends the program, by SIGABRT and a core: it may end, for
 * nothing is lost that a keeper keeps, but in order, and with a word about it where others are.
 *
 * Where the kernel has no room for an fd among those that are waited for (ENOMEM, or ENOSPC: max_user_watches), its watcher is
 * stopped and called with EV_ERROR. But libev finds that out just before it waits, and waits nevertheless; so it is woken.
 *
 * Now and then libev begins anew with all fds, and then it may be the one by which it is woken that there is no room for. It would
 * hear of no signal and of no thread any more: that is the end, too.
 */

#include "daemon/process/loop.h"

#include <ev.h>

#include "daemon/process/clock.h"
#include "daemon/process/log.h"

enum { WAKING_SECONDS = 2 }; /* it is the next thing that happens, or where very much does, one of the next */

static ev_async waker;
static bool refused; /* something could not be waited for */
static double waiting_since;
static unsigned wakings; /* that are to come, since something was refused */

static _Noreturn void on_error(const char *message)
{
	log_error("can't go on: %s: %s", message, strerror(errno));
	exit(EXIT_FAILURE);
}

static void *allocate(void *old, long size)
{
	void *memory;

	if (size == 0) {
		free(old);
		return NULL;
	}
	memory = realloc(old, (size_t)size);
	if (!memory)
		on_error("what the loop needs to wait");
	return memory;
}

void loop_init(void)
{
	ev_set_allocator(allocate);
	ev_set_syserr_cb(on_error);
}

static void on_woken(struct ev_loop *loop _unused_, ev_async *w _unused_, int events _unused_)
{
	if (wakings == 0)
		return;
	wakings--;
	waiting_since = clock_now();
}

/* The first may be because the fd for it was refused, and is the last then. */
static void before_waiting(struct ev_loop *loop)
{
	if (wakings > 0 && clock_now() - waiting_since > WAKING_SECONDS) {
		errno = ENOSPC;
		on_error("what wakes the loop can't be waited for");
	}
	if (ev_pending_count(loop) > 0) {
		refused = true;
		waiting_since = wakings > 0 ? waiting_since : clock_now();
		wakings = 2;
	}
	if (wakings > 0)
		ev_async_send(loop, &waker);
}

static void after_waiting(struct ev_loop *loop _unused_)
{
}

/* Signals and threads wake it through an fd, which is the only one yet. Without it libev would not get any further. */
static bool can_be_woken(struct ev_loop *loop)
{
	ev_run(loop, EVRUN_NOWAIT);
	return !refused;
}

struct ev_loop *loop_new(void)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);

	if (!loop) {
		log_error("there is no loop to be had that waits for anything");
		return NULL;
	}
	ev_async_init(&waker, on_woken);
	ev_async_start(loop, &waker);
	ev_set_loop_release_cb(loop, before_waiting, after_waiting);
	if (can_be_woken(loop))
		return loop;
	log_error("the kernel has no room for what is to be waited for (max_user_watches)");
	ev_loop_destroy(loop);
	return NULL;
}
