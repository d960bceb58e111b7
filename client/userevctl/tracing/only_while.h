/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* --tenant of commands that record: events are on for these tenants alone while the command runs, where that is possible. */

#include "client/userevctl/silence/silence.h"

struct tracing;
struct event;

struct only_while {
	const char *tenant;		  /* a name, or a glob of names; NULL: all tenants are wanted */
	struct control *control;	  /* the daemon's rules end with this connection */
	struct silence_patterns patterns; /* the tenants that have been there */
	const char **names;		  /* of events that are on for them alone; copies */
	size_t n;
	size_t shared; /* events that are on for other tenants, too */
	size_t narrow; /* if all tenants are wanted: events that the daemon keeps off for some */
};

void only_while_deinit(struct only_while *);
/* In each look, first: finds new tenants. */
void only_while_look(struct tracing *);
/* Whether the event will be on for other tenants, too. */
bool only_while_is_shared(const struct tracing *, const struct event *);
/* Whether the event, which is off or another tracer's, may be switched on now. False: there is no such tenant yet. */
bool only_while_allows(struct tracing *, const struct event *);
/* Prints a note: for whom the events are on. */
void only_while_note(const struct tracing *);
