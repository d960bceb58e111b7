/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Before Linux 6.4: records which events a keeper has made or used, for a successor if the keeper is killed together with its daemon. */

#include <sys/types.h>

#include "protocol/base/base.h"

struct user_events;

struct left_behind {
	int directory;	/* for the records; -1: none */
	int lock;	/* of the directory, while this keeper uses it; otherwise -1 */
	int instance;	/* of tracefs, in which a predecessor's events are on; otherwise -1 */
	bool settled;	/* the records are this keeper's, or those of a predecessor have been dealt with */
	unsigned pause; /* seconds until the next look; 0: there is none */
	char place[20]; /* where this keeper's locks begin */
};

/* Records where this keeper's locks begin. */
void left_behind_init(struct user_events *, int directory);
void left_behind_deinit(struct user_events *);

/* Records an event in use; `ours`: the keeper has made it, and is to delete it. */
void left_behind_record(struct user_events *, const char *name, bool ours);
void left_behind_forget(struct user_events *, const char *name);

typedef void left_behind_taker(struct user_events *, const char *name);

/*
 * The daemon has taken over everything that it goes on with. If that is nothing, the records are a predecessor's: wakes the predecessor's
 * programs, now and with each left_behind_look() after a pause, and calls `take` once for each event that the predecessor has made.
 */
void left_behind_begin(struct user_events *, left_behind_taker *take);
void left_behind_look(struct user_events *, left_behind_taker *take);
/* The daemon goes on with events of a predecessor. */
void left_behind_settle(struct user_events *);
