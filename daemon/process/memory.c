/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/memory.h"

#include <malloc.h>

#include "daemon/limits.h"
#include "daemon/process/timer.h"
#include "protocol/base/base.h"

/* Much freed memory is returned at once, so that it never becomes more than takes a moment; the rest later. */
static void memory_trim(struct memory *memory)
{
	memory->freed = 0;
	ev_timer_stop(memory->loop, &memory->w_trim);
	malloc_trim(TRIM_PAD);
}

static void on_trim(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	memory_trim(container_of(w, struct memory, w_trim));
}

void memory_taken(struct memory *memory, size_t bytes)
{
	memory->freed -= MIN(memory->freed, bytes);
}

void memory_freed(struct memory *memory, size_t bytes)
{
	memory->freed += bytes;
	if (memory->freed >= TRIM_BYTES)
		memory_trim(memory);
	else if (memory->freed >= TRIM_LEAST)
		timer_repeat(memory->loop, &memory->w_trim, on_trim, TRIM_INTERVAL);
}
