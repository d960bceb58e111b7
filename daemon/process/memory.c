/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/memory.h"

#include <malloc.h>

#include "daemon/daemon.h"

/* A while after a tenant has gone, when there may be less to do. */
static void on_trim(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_trim);

	daemon->freed = 0;
	malloc_trim(TRIM_PAD);
}

void memory_init(struct daemon *daemon)
{
	ev_timer_init(&daemon->w_trim, on_trim, TRIM_INTERVAL, 0.);
}

void memory_deinit(struct daemon *daemon)
{
	ev_timer_stop(daemon->loop, &daemon->w_trim);
}

void memory_freed(struct daemon *daemon, size_t bytes)
{
	daemon->freed += bytes;
	if (daemon->freed < TRIM_BYTES || ev_is_active(&daemon->w_trim))
		return;
	ev_timer_set(&daemon->w_trim, TRIM_INTERVAL, 0.);
	ev_timer_start(daemon->loop, &daemon->w_trim);
}
