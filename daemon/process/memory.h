/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Returns freed memory to the system once it is much: libc keeps freed blocks below blocks in use. */

#include <ev.h>
#include <stddef.h>

struct memory {
	struct ev_loop *loop;
	size_t freed;	 /* bytes, since the last time */
	ev_timer w_trim; /* while these are many */
};

void memory_init(struct memory *, struct ev_loop *);
void memory_deinit(struct memory *);
/* So many bytes have been freed, or are about to be. */
void memory_freed(struct memory *, size_t bytes);
