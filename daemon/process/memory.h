/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Returns freed memory to the system once it is much: libc keeps freed blocks below blocks in use. */

#include <ev.h>
#include <stddef.h>

/* Begins as zeros and the loop. */
struct memory {
	struct ev_loop *loop;
	size_t freed;	 /* bytes that have been freed since the last time, and not taken again */
	ev_timer w_trim; /* while there are such bytes */
};

/* So many bytes have been allocated; or have been freed, or are about to be. */
void memory_taken(struct memory *, size_t bytes);
void memory_freed(struct memory *, size_t bytes);
