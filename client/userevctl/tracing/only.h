/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* enable --tenant: events that are on for some tenants alone. Functions return an enum exit_code. */

#include "client/userevctl/silence/silence.h"
#include "client/userevctl/tracing/tracing.h"

struct only {
	struct silence_patterns patterns;
	struct silence_answer answer;
	bool keep;
	size_t shared;	  /* events of which a filter has to select the records */
	uint64_t threads; /* that the filter lets through */
};

void only_deinit(struct only *);
/* Finds the tenants. `keep`: also for the next boot. */
int only_find(struct tracing *, const char *const *tenants, size_t n, bool keep, struct only *);
/* Whether the event is on for all tenants or for none: a foreign one, or before Linux 6.4, when all tenants have the kernel's page. */
bool only_is_shared(const struct tracing *, const struct event *);
/* Before events are switched on: those of the last look that match the pattern, or NULL: one of the tracing's. */
int only_begin(struct tracing *, const char *pattern, struct only *);
/* Once events are switched on for all, or off: nothing of that is left for those of the last look. */
int only_end(struct tracing *);
/* The last line of output; and notes. */
void only_print(const struct tracing *, uint64_t events, const struct only *);

/* threads.c: such events of the last look are recorded in the top instance for threads of the tenants alone. */
/* "common_pid == 12 || common_pid == 13": they are counted in `threads`. */
int threads_condition(struct only *, struct text *ret);
int threads_begin(struct tracing *, const char *pattern, struct only *);
int threads_end(struct tracing *);
