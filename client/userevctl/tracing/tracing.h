/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Listing events, switching them, reading their records. With the embedded backend the daemon is the tracer and does all of
 * this; with the kernel's backends userevctl is a tracer like any other, through tracefs. Functions that return an
 * enum exit_code print their errors.
 */

#include "client/userevctl/ctl.h"
#include "client/userevctl/tracing/catalogue.h"
#include "client/userevctl/tracing/only_while.h"
#include "client/userevctl/tracing/record.h"

/* Which foreign events a command deals with. */
enum foreign_use { FOREIGN_NEVER, FOREIGN_BY_NAME, FOREIGN_ALL };

struct tracing {
	struct ctl *ctl;
	char *const *patterns; /* of names: the command's arguments; without any, all events match */
	int n_patterns;
	enum foreign_use foreign;
	const char *tenant;	 /* only events of programs of such a tenant; NULL: of all */
	bool only_on;		 /* only events that are on */
	bool kernel;		 /* the kernel records, and tells tracers apart */
	bool no_daemon;		 /* all events are foreign */
	bool blind;		 /* this user may not read tracefs: the state of events is not known */
	char place[256];	 /* of tracefs */
	struct cursor status;	 /* a copy of the daemon's row */
	struct catalogue events; /* of the last tracing_look() */
	const char *filter;	 /* of records, in the kernel's syntax; NULL: none */
	const char *trigger;	 /* set for the events, instead of recording them; NULL: none */
	struct only_while only_while;
	/* A tail: */
	int fd;	      /* -1: there is none */
	uint64_t due; /* ns: the time of the next tail_read(), even if `fd` is not readable; 0: none */
	bool busy;    /* records are waiting, even if `fd` is not readable */
	bool over;
	struct control *control;   /* embedded: sends the records */
	struct follower *follower; /* kernel */
	struct own_tail *own;	   /* this tenant's own events, with these: */
	const struct tail_calls *own_calls;
};

/* In place of the functions of these names. */
struct tail_calls {
	int (*begin)(struct tracing *);
	int (*read)(struct tracing *, struct record_view *);
	int (*end)(struct tracing *, struct record_view *);
	void (*free)(struct tracing *);
};

enum tracing_use {
	TRACING_ASK_DAEMON,	/* its status alone: the cost does not grow with the events, and no tracefs is needed */
	TRACING_LOOK_AT_DAEMON, /* as TRACING_LOOK, but fails without a daemon */
	TRACING_LOOK,		/* looks; leaves out the state of events if this user may not read tracefs */
	TRACING_ACT,
	TRACING_INSTANCES, /* acts on instances of tracefs alone: events without a daemon are not worth a note */
};

/* Opens the tracer of the daemon's backend; without a daemon, tracefs, where all events are foreign. An enum exit_code. */
int tracing_open(struct ctl *, enum tracing_use, struct tracing **ret);
struct tracing *tracing_free(struct tracing *);
static inline void tracing_freep(struct tracing **tracing)
{
	*tracing = tracing_free(*tracing);
}

/* Reads the list of events again. Returns an enum exit_code. */
int tracing_look(struct tracing *);
/* Whether the pattern matches this event, and `foreign` admits it. */
bool tracing_matches(const struct tracing *, const char *pattern, const struct event *);
/* Whether one of them does, and the event is such as the command wants. */
bool tracing_matches_any(const struct tracing *, const struct event *);
/* The event behind this one, or the first behind NULL, that matches one of the patterns; NULL: there is none. */
const struct event *tracing_next(const struct tracing *, const struct event *);

/* Of the events of the last look, also of foreign ones. */
void tracing_learn_fields(struct tracing *);

/* Switches the events of the last look: an enum exit_code. */
int tracing_turn(struct tracing *, bool on, uint64_t *ret_events);
/* Waits until every write that had begun is complete: an enum exit_code. */
int tracing_settle(const struct tracing *);

/* Records of a tail. */
/*
 * Of events that match one of the patterns; without patterns, of all events that are on. `flags`: TAIL_… of the protocol. From
 * then on `fd` is readable when there is something for tail_read(). An enum exit_code.
 */
int tail_begin(struct tracing *, uint16_t flags);
/* Prints the records that there are, and flushes; sets `over` at the end. An enum exit_code. */
int tail_read(struct tracing *, struct record_view *);
/* tail_end.c. Switches the events off, and passes on what was recorded until then. An enum exit_code. */
int tail_end(struct tracing *, struct record_view *);

/*
 * names.c: looks; EXIT_DONE if each pattern matches an event; otherwise EXIT_REFUSED after naming events of similar names. If
 * `may_wait`, a pattern with *, ? or [ need not match.
 */
int names_check(struct tracing *, bool may_wait);
