/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The events of tracefs and those of the daemon, merged. */

#include "protocol/protocol.h"
#include "protocol/row.h"

enum used_by { USED_BY_FTRACE = 1 << 0, USED_BY_PERF = 1 << 1, USED_BY_OTHER = 1 << 2, USERS = 3 };
extern const char *const user_names[USERS];

struct event {
	char *name;  /* as programs know it; the same for a plain event and all formats of a multi-format event */
	char *shown; /* as tracers do: with .ID for a multi-format event; the same pointer as `name` if they are equal */
	char *fields;	    /* "type field; type field"; NULL: foreign, and not learned yet */
	const char *system; /* in tracefs; NULL: the event is not there */
	struct cursor row;  /* a copy of the daemon's; empty: foreign */
	bool foreign;	    /* made without the daemon */
	bool on;
	unsigned used_by; /* of enum used_by */
};

struct catalogue {
	struct event *events; /* sorted by `shown`, once merged */
	size_t n;
	size_t n_rows; /* the first ones are the daemon's, until merged */
	size_t foreign;
};

void catalogue_add_row(struct catalogue *, struct cursor row);
/*
 * After all rows: adds the events of a user_events_status (NULL: none), which is overwritten. `read_format` reads the format of an
 * event, or fails if tracefs does not show this name in the system.
 */
struct event_format;
typedef int read_format_fn(const char *system, const char *name, struct event_format *ret);
void catalogue_merge(struct catalogue *, char *status, read_format_fn *);
/*
 * The fields of foreign events, from a dynamic_events, which is overwritten. (Linux 6.1.192 crashes when a program reads the format file of
 * an event that is deleted meanwhile. So that file is only read while the event is on.)
 */
void catalogue_learn_fields(struct catalogue *, char *dynamic_events);
void catalogue_deinit(struct catalogue *);
