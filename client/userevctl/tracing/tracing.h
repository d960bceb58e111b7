/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Listing events, switching them, reading their records. With the embedded backend the daemon is the tracer and does all of
 * this; with the kernel's backends userevctl is a tracer like any other, through tracefs. The functions print their errors
 * and return an enum exit_code.
 */

#include "client/userevctl/ctl.h"
#include "client/userevctl/tracing/record.h"

enum used_by { USED_BY_FTRACE = 1 << 0, USED_BY_PERF = 1 << 1, USED_BY_OTHER = 1 << 2 };

struct event_view {
	const char *name;  /* as programs know it; the same for a plain event and all formats of a multi-format event */
	const char *shown; /* as tracers do: with .ID for a multi-format event */
	const char *fields; /* "type field; type field"; NULL: not asked for, or not readable */
	const char *system; /* in tracefs; NULL: the event is not there */
	struct cursor row;  /* of the daemon; empty for a foreign event */
	bool foreign;	    /* made without the daemon */
	bool state_known;
	bool on;
	unsigned used_by; /* of enum used_by */
};

typedef void event_take(void *data, const struct event_view *);

/* Which foreign events a command deals with. */
enum foreign_use { FOREIGN_NEVER, FOREIGN_BY_NAME, FOREIGN_ALL };

/* What a tail shows. */
struct tail_request {
	char *const *patterns;
	int n; /* 0: all events that are on */
	bool past;
	bool no_follow;
};

struct tracing;

struct tracing_ops {
	/* Passes each event that matches a pattern to `take`, without patterns all; `fields`: with its fields. */
	int (*list)(struct tracing *, char *const *patterns, int n, bool fields, event_take *, void *data);
	int (*turn)(struct tracing *, char *const *patterns, int n, bool on, uint64_t *ret_events);
	/* Waits until every write that had begun is complete. NULL: `turn` does that. */
	int (*settle)(struct tracing *);
	/* From then on `fd` is readable when there is something for tail_read(). */
	int (*tail_begin)(struct tracing *, const struct tail_request *);
	/* Prints the records that there are, and flushes; sets `over` at the end. */
	int (*tail_read)(struct tracing *, struct record_view *);
	void (*free)(struct tracing *);
};

struct tracing {
	const struct tracing_ops *ops;
	struct ctl *ctl;
	enum foreign_use foreign;
	bool kernel;	/* the kernel records, and tells tracers apart */
	bool no_daemon; /* all events are foreign */
	int fd;		/* of a tail, else -1 */
	bool busy;	/* records are waiting, even if `fd` is not readable */
	bool over;
	int signal; /* that ended the tail; 0: none */
	/* For `status`; "" or 0: not known. */
	char place[256];
	uint64_t events_max;
	bool events_max_known;
};

enum tracing_use {
	TRACING_LOOK, /* leaves out what this user may not see */
	TRACING_ACT,
};

/* tracing.c: opens the one for the daemon's backend; without a daemon, tracefs, where all events are foreign. */
int tracing_open(struct ctl *, enum tracing_use, struct tracing **ret);
struct tracing *tracing_free(struct tracing *);
static inline void tracing_freep(struct tracing **tracing)
{
	*tracing = tracing_free(*tracing);
}
/* Whether the pattern, or one of the patterns, matches this event, and `foreign` admits it. */
bool tracing_matches(const struct tracing *, const char *pattern, const struct event_view *);
bool tracing_matches_any(const struct tracing *, char *const *patterns, int n, const struct event_view *);
void tracing_note_none_is_on(void);
/* The description without the name; "" if it has no fields. */
static inline const char *tracing_fields(const char *description)
{
	const char *space = strchr(description, ' ');

	return space ? space + 1 : "";
}

/* names.c: EXIT_DONE if each pattern matches an event; otherwise EXIT_REFUSED after naming events of similar names.
 * If `may_wait`, a pattern with *, ? or [ need not match. */
int names_check(struct tracing *, char *const *patterns, int n, bool may_wait);

/* events.c: the list of events that `status` ends with, or its JSON. */
int events_table(struct ctl *, struct tracing *);
int events_json(struct ctl *, struct tracing *, struct json *);

int tracing_embedded_new(struct ctl *, struct tracing **ret);
/* `no_daemon`: EXIT_NO_DAEMON without a message if tracefs has no user_events either. */
int tracing_tracefs_new(struct ctl *, enum tracing_use, bool no_daemon, struct tracing **ret);
