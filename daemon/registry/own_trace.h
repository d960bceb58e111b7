/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Traces of a tenant by one of its own programs. Records go from program to program: each of the tenant's programs gets one end of a socket
 * pair, and the reader of the trace gets the other. The daemon says which events are traced, and sees no record.
 */

#include "daemon/policy/glob.h"
#include "daemon/registry/registry.h"
#include "protocol/base/text.h"

struct holder;
struct tenant;

enum { OWN_TRACE_PATTERNS_MAX = 8 };

struct own_trace {
	struct holder *holder; /* the trace ends with it */
	unsigned slot;	       /* among the tenant's traces */
	int fd;		       /* the end that programs write to */
	/* The kernel has answered, or the trace has ended before; NULL: that was said. */
	void (*begun)(struct own_trace *);
	void *data;
	LIST_ENTRY(own_trace) in_all;
	size_t n; /* without a pattern it has all events */
	char pattern[OWN_TRACE_PATTERNS_MAX][GLOB_BYTES_MAX + 1];
};

/*
 * Begins the trace for the holder. 0 with the reader's end, and `begun` is called later; a positive enum refusal with a sentence; or
 * -ENOMEM.
 */
int own_trace_begin(struct holder *, const char *const *patterns, size_t n, void (*begun)(struct own_trace *),
		    void *data, int *ret_reader, struct text *why);
/* The holder's trace ends, if it has one. */
void own_trace_end(struct holder *);
/* A new policy: ends traces that it does not allow, with their connections. */
void own_traces_check(struct registry *);
/* A program that understands traces gets the sockets of all that its tenant has. */
void own_traces_tell(struct holder *);
/* A bit for each trace that has an event of this name, as KERNEL_TRACES. */
uint16_t own_traces_of(const struct tenant *, const char *name, size_t length);
void own_traces_init(struct registry *);
void own_traces_deinit(struct registry *);
