/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/memory.h"

#include <malloc.h>

#include "daemon/limits.h"
#include "protocol/base/base.h"

/* Some time after the memory was freed, when there may be less to do. */
static void on_trim(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct memory *memory = container_of(w, struct memory, w_trim);

	memory->freed = 0;
	malloc_trim(TRIM_PAD);
}

void memory_init(struct memory *memory, struct ev_loop *loop)
{
	memory->loop = loop;
	ev_timer_init(&memory->w_trim, on_trim, TRIM_INTERVAL, 0.);
}

void memory_deinit(struct memory *memory)
{
	ev_timer_stop(memory->loop, &memory->w_trim);
}

void memory_freed(struct memory *memory, size_t bytes)
{
	memory->freed += bytes;
	if (memory->freed < TRIM_BYTES || ev_is_active(&memory->w_trim))
		return;
	ev_timer_set(&memory->w_trim, TRIM_INTERVAL, 0.);
	ev_timer_start(memory->loop, &memory->w_trim);
}
