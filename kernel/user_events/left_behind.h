/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Before Linux 6.4: which events a keeper has made or used, for the one that comes after it was killed together with its daemon. */

#include <sys/types.h>

#include "protocol/base/base.h"

struct user_events;

struct left_behind {
	int directory;	/* for the names of events; -1: there is none */
	int lock;	/* held by the keeper that uses the directory; else -1 */
	int instance;	/* of tracefs, in which a predecessor's events are on; else -1 */
	bool settled;	/* what there is was not left behind, or has been dealt with */
	unsigned pause; /* seconds until the next look; 0: there is none */
};

/* Remembers where this keeper's locks begin. */
void left_behind_init(struct user_events *, int directory);
void left_behind_deinit(struct user_events *);
/* This keeper has another range of bytes for its locks. */
void left_behind_note_ranges(struct user_events *);

/* The event is used by programs, and is `ours` to delete when that is over. */
void left_behind_record(struct user_events *, const char *name, bool ours);
/* Nobody uses it any more. */
void left_behind_forget(struct user_events *, const char *name);

typedef void left_behind_taker(struct user_events *, const char *name);

/*
 * The daemon has taken over all that it goes on with: if that is nothing, what is recorded was left behind. Its programs are
 * woken, now and as long as left_behind_look() is called after each pause; each event that a predecessor has made is given
 * to `take`, once.
 */
void left_behind_begin(struct user_events *, left_behind_taker *take);
void left_behind_look(struct user_events *, left_behind_taker *take);
/* The daemon has given us what it had from a predecessor. */
void left_behind_settle(struct user_events *);
