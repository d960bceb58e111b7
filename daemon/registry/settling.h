/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The kernel frees an event a little after its last reference has ended. The daemon asks again for a name that the keeper removed
 * a moment ago; the keeper answers others meanwhile.
 */

#include "daemon/registry/registry.h"

/* Embedded in the request that waits. */
struct settling {
	void (*resume)(struct settling *);
	double at; /* clock_now() */
	unsigned waits;
	TAILQ_ENTRY(settling) entry;
};

/* Calls `resume` in a moment. */
void settling_wait(struct registry *, struct settling *, void (*resume)(struct settling *));
/* Whether a KERNEL_E_SETTLING is to be tried again. The number of waits decides, since on a busy machine one may take long. */
bool settling_goes_on(const struct settling *);
/* For the start: dispatches the kernel until nothing is under way. 0 or a negative errno. */
int settling_await(struct registry *, const bool *under_way);
/* Resumes all that have waited until this time. For the end, with DBL_MAX: the kernel answers each call at once by then. */
void settling_resume(struct registry *, double now);
