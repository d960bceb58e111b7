/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A tail in tracefs: an instance of its own, what is on in it, and what ends it. */

#include <signal.h>

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/table.h"

#define NS_PER_MS UINT64_C(1000000)

enum { RECORD_TYPES_MAX = 65536, DESCRIPTION_TEXT_MAX = FORMAT_FIELDS_MAX + 16 };

struct tail_event {
	bool on;
	uint64_t seen; /* in which look it was wanted, the last time */
	UT_hash_handle by_key;
	char *name; /* as programs know it; in the key */
	const char *system;
	char description[DESCRIPTION_TEXT_MAX];
	char shown[]; /* the key: no name is in both systems */
};

struct tail_session {
	struct tracefs_tracing *tracefs;
	struct tail_wish wish;
	char instance_name[32];
	struct tracefs_instance *instance;
	struct trace_buffers *buffers;
	struct writers *writers;
	struct tail_event *events;
	struct tail_event *by_type[RECORD_TYPES_MAX]; /* as records name them */
	int timer;
	int stop;
	uint64_t looks;
	uint64_t look_took; /* ns */
	uint64_t looked;    /* when all was looked at */
	uint64_t asked;	    /* when the daemon was */
	uint64_t settled;   /* when nothing is to be expected any more, unless the texts change */
	bool daemon_gone;
	char *status; /* as it was at the last look */
	char *set_event;
};

/* tracer_tracefs_instance.c: 0 or a negative errno. Leftovers of others that have ended are removed first. */
int tail_instance_make(struct tail_session *);
void tail_instance_remove(struct tail_session *);

/* tracer_tracefs_signal.c: a signal that would end us sets `tail_stopped` and writes to this eventfd. */
extern volatile sig_atomic_t tail_stopped; /* by which signal */
void tail_signals_catch(int eventfd);
void tail_signals_release(void);

/* tracer_tracefs_look.c */
/*
 * Switches on what is wanted and has come, and off what is not any more: an enum exit_code. `view`: NULL at the first
 * look.
 */
int tail_look(struct tail_session *, struct record_view *view);
/* How long to wait before the next, in ns. */
uint64_t tail_next_look(const struct tail_session *);

/* tracer_tracefs_tail.c: prints what has been recorded up to now. 0 or a negative errno. */
int tail_drain(struct tail_session *, struct record_view *);
