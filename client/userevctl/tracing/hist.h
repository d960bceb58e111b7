/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Histograms of the kernel, as a table or JSON. */

#include "client/userevctl/tracing/hist_line.h"
#include "client/userevctl/tracing/tracefs.h"

enum {
	HIST_TRIGGER_MAX = 4000,
	HIST_COLUMNS = HIST_NAMES_MAX + 3,
	HIST_SECONDS = 10,   /* the default time */
	HIST_ENTRIES = 2048, /* the kernel's default */
};

struct hist {
	const char *keys, *values, *sort, *filter, *tenant;
	const char *threads; /* a condition; NULL: all of them */
	uint64_t timeout;
	uint64_t hits, dropped;
	char trigger[HIST_TRIGGER_MAX];
	char copy[HIST_TRIGGER_MAX]; /* the names are in it */
	struct hist_names names;
};

struct table hist_table(const struct hist *, const struct output *, struct column columns[HIST_COLUMNS]);
/* Adds the text of an event's hist file to the table, or prints its lines as JSON; and adds up what it counted. */
void hist_print(struct hist *, const struct output *, const char *event, const char *text, struct table *);
/* Prints the table, and the numbers. `entries`: those that the kernel's table has. */
void hist_end(const struct hist *, const struct output *, struct table *, uint64_t entries);

/* hist_remove.c */

/* The synthetic event of a latency command has a prefix and its pid as its name, and this histogram. */
#define LATENCY_SYSTEM "synthetic"
#define LATENCY_PREFIX "userevctl_"
#define LATENCY_HIST   "hist:keys=us.log2:sort=us"
/* Removes the histograms of an event. One whose variables are used by that of another event stays until the other one has gone. */
void hist_remove(struct tracefs_instance *, const char *system, const char *event);
/* Removes the synthetic event of that process, once the histograms of other events that pass it times have gone. */
void hist_remove_latency(struct tracefs_instance *, pid_t);
/* Both, of all events of programs: whatever that process has left. */
void hists_remove(struct tracefs_instance *, pid_t);
