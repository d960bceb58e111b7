/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The embedded backend as a tracer: what ftrace would do for the other backends. Events are switched on by the admin's
 * switch or for as long as a session lives that wants them.
 */

#include "kernel/embedded/ring.h"

struct tracer;
struct tracer_session;

struct tracer_event {
	uint64_t id;		 /* grows; never used again */
	const char *description; /* canonical; until the next call into the kernel or the tracer */
	size_t name_length;
	bool on;
	bool switched;	/* by the admin, so that it stays known when its last holder has gone */
	uint32_t pages; /* on how many it stands: tenants that hold it */
	uint64_t records;
	uint64_t bad;
};

/* The first event with an id above `after`, in the order of ids, which begin at 1; false at the end. */
bool tracer_next(struct tracer *, uint64_t after, struct tracer_event *ret);

/* Switches the events that match the glob; how many match. What was written before is read first. */
size_t tracer_switch(struct tracer *, const char *pattern, bool on);

/* Wants all that match one of the globs, now and later, until it is freed, before the kernel is. The patterns are copied. -ENOMEM. */
int tracer_session_new(struct tracer *, const char *const *patterns, size_t n, struct tracer_session **ret);
struct tracer_session *tracer_session_free(struct tracer_session *);
/* Whether this session wants an event of that name (not terminated). */
bool tracer_session_wants(const struct tracer_session *, const char *name, size_t length);

/* Reads every record that was written before this was called. Writers that go on cannot keep it. */
void tracer_drain(struct tracer *);

/*
 * The flight recorder: each entry is a row (protocol/row.h) with time (ns since 1970), pid, uid, comm ("unknown" where the
 * writer is gone), tenant, event (its canonical description) and payload, in this order. It grows in kernel_dispatch(),
 * tracer_drain() and tracer_switch(), and in kernel_submit() too: what a stream still holds is read before its events are
 * released.
 */
struct ring *tracer_ring(struct tracer *);
