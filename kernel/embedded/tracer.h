/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The embedded backend as a tracer, in the place of ftrace. An event is on if the admin has switched it on, or a session wants it.
 */

#include <sys/queue.h>

#include "kernel/embedded/ring.h"
#include "protocol/base/table.h"

LIST_HEAD(holding_list, holding);
LIST_HEAD(tracer_session_list, tracer_session);

struct tracer {
	struct trace_event *events; /* table by name; its order, of insertion, is that of ids */
	struct trace_event *cursor; /* the event that was found last, or one before it; or NULL */
	uint64_t last_id;
	struct tracer_session_list sessions;
	/*
	 * The flight recorder: each entry is a row (protocol/row.h) with time (ns since 1970), pid, uid, comm ("unknown" if the writer has
	 * ended), tenant, event (its canonical description) and payload, in this order. kernel_dispatch(), tracer_drain(), tracer_switch()
	 * and kernel_submit() add entries, the last because a stream is read before its events are released.
	 */
	struct ring ring;
	struct parsed_event *parsed;
};

struct trace_event {
	uint64_t id;	 /* grows; never used again */
	bool on;	 /* switched or wanted */
	bool switched;	 /* by the admin, so it stays known without holders */
	uint32_t wanted; /* sessions that want it */
	uint32_t pages;	 /* tenants that have it */
	uint64_t records;
	uint64_t bad;
	struct holding_list holdings;
	UT_hash_handle by_name;
	size_t name_length;
	const char *name; /* terminated; behind the description */
	char description[];
};

/* The first event with an id above `after`, in the order of ids, which begin at 1; or NULL. Valid until the next call of kernel or tracer. */
struct trace_event *tracer_next(struct tracer *, uint64_t after);

/* An event's records. The name need not be terminated. */
uint64_t tracer_records(const struct tracer *, const char *name, size_t length);

/* Switches events that match the glob, and returns their number. Reads earlier records first. */
size_t tracer_switch(struct tracer *, const char *pattern, bool on);

/* A session wants all events, present and future, that match one of its globs. It has to be freed before the kernel. -ENOMEM. */
int tracer_session_new(struct tracer *, const char *const *patterns, size_t n, struct tracer_session **ret);
struct tracer_session *tracer_session_free(struct tracer_session *);
/* Whether this session wants an event of that name (not terminated). */
bool tracer_session_wants(const struct tracer_session *, const char *name, size_t length);

/* Reads every record that was written before. Programs that go on writing do not prolong it. */
void tracer_drain(struct tracer *);
/* The records of one page's programs; zeros if there is no such page. */
struct kernel_page_stats tracer_page_stats(struct tracer *, uint32_t page);
