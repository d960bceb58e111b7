/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/memory.h"

#include <malloc.h>

#include "daemon/limits.h"
#include "daemon/process/timer.h"
#include "protocol/base/base.h"

static void on_trim(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	container_of(w, struct memory, w_trim)->freed = 0;
	ev_timer_stop(loop, w);
	malloc_trim(TRIM_PAD);
}

void memory_taken(struct memory *memory, size_t bytes)
{
	memory->freed -= MIN(memory->freed, bytes);
}

void memory_freed(struct memory *memory, size_t bytes)
{
	memory->freed += bytes;
	if (memory->freed >= TRIM_LEAST)
		timer_repeat(memory->loop, &memory->w_trim, on_trim, TRIM_INTERVAL);
}
