/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A tail in tracefs: its instance, the events that are on in it, and the signal that ends it. */

#include <signal.h>

#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/table.h"

enum { RECORD_TYPES_MAX = 65536, DESCRIPTION_TEXT_MAX = FORMAT_FIELDS_MAX + 16 };

struct session_event {
	bool on;
	uint64_t seen; /* the number of the last look that wanted it */
	UT_hash_handle by_key;
	char *name; /* as programs know it; in the key */
	const char *system;
	char description[DESCRIPTION_TEXT_MAX];
	char shown[]; /* the key: no name is in both systems */
};

struct session {
	struct tracefs_tracing *tracefs;
	struct tail_request request;
	struct tracefs_instance *instance;
	struct buffers *buffers;
	struct writers *writers;
	struct session_event *events;
	struct session_event *by_type[RECORD_TYPES_MAX]; /* the type in a record */
	int timer;
	int stop; /* eventfd */
	uint64_t looks;
	uint64_t look_took; /* ns */
	uint64_t looked;    /* the time of the last complete look */
	uint64_t asked;	    /* the time when the daemon was asked last */
	uint64_t settled;   /* from then on looks are needed only when the texts change */
	bool daemon_gone;
	char *status; /* the texts of the last look */
	char *set_event;
};

/* The signal that ends the tail; its handler writes to session.stop. */
extern volatile sig_atomic_t session_stopped;

/* session.c: prints the records that there are. 0 or a negative errno. */
int session_drain(struct session *, struct record_view *);

/*
 * look.c: switches on wanted events that have come, and off those that are not wanted any more: an enum exit_code. `view`:
 * NULL in the first look.
 */
int look_now(struct session *, struct record_view *view);
/* How long to wait before the next look, in ns. */
uint64_t look_pause(const struct session *);
