/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Seeing events, switching them, reading their records. On the embedded backend the daemon is the tracer and is asked;
 * with the others it is the kernel, and userevctl is a tracer like any other, through tracefs. What goes wrong is said
 * on stderr where it is found: the functions return an enum exit_code.
 */

#include "client/userevctl/ctl.h"

enum used_by { USED_BY_FTRACE = 1 << 0, USED_BY_PERF = 1 << 1, USED_BY_OTHER = 1 << 2 };

struct event_view {
	const char *name;   /* as programs know it: of a plain event and those of many formats it is the same */
	const char *shown;  /* as tracers do: with .ID where there may be several of one name */
	const char *fields; /* "type field; type field"; NULL where they were not asked for, or cannot be seen */
	const char *system; /* in tracefs; NULL: is not there */
	struct cursor row;  /* what the daemon says; empty where the event is foreign */
	bool foreign;	    /* somebody made it without the daemon */
	bool state_known;
	bool on;
	unsigned used_by; /* of enum used_by */
};

typedef void event_take(void *data, const struct event_view *);

/* Which foreign events a command deals with. */
enum foreign_use { FOREIGN_NEVER, FOREIGN_BY_NAME, FOREIGN_ALL };

struct tail_wish {
	char *const *patterns;
	int n; /* 0: all that are on */
	bool past;
	bool no_follow;
};

struct tracing;

struct tracing_ops {
	/* Gives each event that a pattern means to `take`, without patterns all; `fields`: with its fields. */
	int (*list)(struct tracing *, char *const *patterns, int n, bool fields, event_take *, void *data);
	int (*turn)(struct tracing *, char *const *patterns, int n, bool on, uint64_t *ret_events);
	/* Whoever was about to write a record has done so when this returns. NULL: `turn` waits for that already. */
	int (*settle)(struct tracing *);
	/* From then on `fd` is readable when there is something for tail_read(). */
	int (*tail_begin)(struct tracing *, const struct tail_wish *);
	/* Prints what there is, and flushes; sets `over` at the end. */
	int (*tail_read)(struct tracing *, struct record_view *);
	void (*free)(struct tracing *);
};

struct tracing {
	const struct tracing_ops *ops;
	struct ctl *ctl;
	enum foreign_use foreign;
	bool kernel;	/* it records, not the daemon: tracers are told apart */
	bool no_daemon; /* what there is, is foreign */
	int fd;		/* of a tail, else -1 */
	bool busy;	/* there is more, whatever `fd` says */
	bool over;
	int signal; /* by which the tail was ended; 0: it was not */
	/* For a status; "" or 0 where there is nothing to say. */
	char place[256];
	uint64_t events_max;
	bool events_max_known;
};

enum tracing_use {
	TRACING_LOOK, /* what this user may not see is left out */
	TRACING_ACT,
};

/* ctl_tracer.c: the one for the daemon's backend; without a daemon, what tracefs has is all foreign. */
int tracing_open(struct ctl *, enum tracing_use, struct tracing **ret);
struct tracing *tracing_free(struct tracing *);
static inline void tracing_freep(struct tracing **tracing)
{
	*tracing = tracing_free(*tracing);
}

/* Whether a pattern, or any of them, means this event, and `foreign` lets it. */
bool tracing_matches(const struct tracing *, const char *pattern, const struct event_view *);
bool tracing_matches_any(const struct tracing *, char *const *patterns, int n, const struct event_view *);
void tracing_tell_none_is_on(void);
/* The description without the name; "" where there are no fields. */
static inline const char *tracing_fields(const char *description)
{
	const char *space = strchr(description, ' ');

	return space ? space + 1 : "";
}

/* tracer_embedded.c, tracer_tracefs.c */
int tracing_embedded_new(struct ctl *, struct tracing **ret);
/* `no_daemon`: silently EXIT_NO_DAEMON where tracefs has no user_events either. */
int tracing_tracefs_new(struct ctl *, enum tracing_use, bool no_daemon, struct tracing **ret);
