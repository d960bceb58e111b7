/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One lock for the whole library. It guards everything except what userev_enabled(), userev_writev() and userev_lost() use: the
 * words of an event, the streams that they name, and atomics. Those functions may run in a signal handler that interrupted the
 * holder of the lock, so they never wait for it.
 */

#include <signal.h>

#include "protocol/base/base.h"
#include "protocol/wire.h"

struct lock {
	int saved_errno;
	int cancel_state;
	bool signals_are_blocked; /* by lock_try() */
	sigset_t signals;	  /* before it */
};

/* Takes the lock until the end of the scope, and preserves errno. */
#define LOCK_LIBRARY _cleanup_(lock_leave) struct lock lock_ _unused_ = lock_enter()
struct lock lock_enter(void);
void lock_leave(struct lock *);

/* For callers inside a test or a write of an event: does not wait, and blocks signals until lock_leave(). */
bool lock_try(struct lock *);
/* Whether the holder of the lock called a function that reports refusals; false after lock_try(). Guarded by the lock. */
extern bool lock_is_explicit;

/* Memory of the process that wrote it: a child finds zeros. NULL before lock_watch_forks(). Guarded by the lock. */
extern struct lock_memory {
	uint64_t is_parent;
	uint8_t packet[WIRE_PACKET_MAX];
} * lock_memory;

/* From now on the child of a fork calls this function with the lock held. 0 or -ENOMEM. */
int lock_watch_forks(void (*become_child)(void));
