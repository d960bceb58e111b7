/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * session: traces that go on without userevctl. A session is an instance of tracefs, userevd-NAME; its probes are in the group
 * userevd_NAME. All that is known about it is in tracefs. Functions that return an enum exit_code print their errors.
 */

#include "client/userevctl/tracing/tracefs.h"

enum { SESSION_NAME_MAX = 64, SESSION_GROUP_MAX = 64 };

struct session_event {
	char *system, *name; /* of tracefs */
	bool user;	     /* of --event */
};

struct session {
	struct ctl *ctl;
	struct tracing *tracing;
	const char *name;		   /* NULL: all of them */
	struct tracefs_instance *instance; /* NULL: there is none yet */
	/* Options of create: */
	struct option_list events, kernel_events, probes, filters, triggers, tenants;
	const char *pids, *tracer, *mode;
	uint64_t size;
	bool children, stopped;
	/* Options of snapshot: */
	const char *output;
	bool now;
	/* Of create: */
	struct session_event *chosen;
	size_t n_chosen;
	const char *tried; /* for messages: the value of the option that the kernel was given last */
};
extern const char *const session_modes[]; /* "flight-recorder", "record" */
enum { SESSION_CREATE_OPTIONS = 12 };	  /* the first ones of session_options */
extern const struct option_row session_options[];

/* With the defaults of the options. */
void session_init(struct session *, struct ctl *);
/* Without its tracing. */
void session_deinit(struct session *);
/* Whether no option names something to record. */
bool session_is_empty(const struct session *);

/* The verbs: an enum exit_code. */
int session_check(struct session *);
int session_create(struct session *);
int session_list(struct session *);
int session_load(struct session *);
int session_show(struct session *);
int session_snapshot(struct session *);

/* name.c */

#define SESSION_PREFIX "userevd-"
bool session_name_is_good(const char *name);
/* The name in that of an instance; NULL: the instance is no session's. */
const char *session_of_instance(const char *instance);
/* Its group of probes; false: the name is too long for one. */
bool session_group(const char *name, char ret[static SESSION_GROUP_MAX]);
/* The session of a group; false: the group is no session's. */
bool session_of_group(const char *group, char ret[static SESSION_GROUP_MAX]);

/* instance.c */

/* Its instance, which exists; NULL: there is none. */
struct tracefs_instance *session_instance(const char *name);
/* The mark of a session is written last: without it, its `create` was killed. */
int session_mark_complete(struct tracefs_instance *);
/* Removes its instance and its probes, also if only some of them are there: 0 or a negative errno; -EBUSY: nothing has changed. */
int session_erase(const char *name);
/*
 * As long as the fd is open no other command makes or removes a session, so that an incomplete one was left by a killed command. A
 * negative errno: there is no lock.
 */
int sessions_lock(const struct tracing *);
/* Under the lock: removes incomplete sessions, and probes without a session. */
void sessions_clean(void);

/* probe.c */

/* Calls for each probe of a session; the line is as `create` takes it. */
typedef int session_probe_fn(void *data, const char *group, const char *event, const char *line);
int session_probes_walk(session_probe_fn *, void *data);
/* Makes the probes of the options, and chooses their events: an enum exit_code. */
int session_make_probes(struct session *);
/* Removes those of a group: 0 or a negative errno. */
int session_remove_probes(const char *group);

/* snapshot.c: whether a trigger has taken one that was not shown yet; and the number of records before it that were overwritten. */
bool session_has_snapshot(struct tracefs_instance *, uint64_t *ret_lost);

/* list.c: the numbers of its buffers, of all CPUs. */
void session_sum_stats(struct tracefs_instance *, struct buffer_stats *ret);

/* tenants.c */

/* Before its events are switched on: for the tenants of the option alone, where that is possible. An enum exit_code. */
int session_limit(struct session *);
/* Once it is destroyed: ends that. `set_event`: the events that it had. */
void session_unlimit(struct session *, const char *set_event);

/* choose.c: which events, by the options: an enum exit_code. */
int session_choose_events(struct session *);
int session_choose_kernel_events(struct session *);
void session_choose(struct session *, const char *system, const char *name, bool user);
/* Writes the filters, or the triggers, that the options have for the chosen events: an enum exit_code. */
int session_set_conditions(struct session *, const char *file, const struct option_list *);
