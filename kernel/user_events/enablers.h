/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of the enabler processes. */

#include "kernel/user_events/enabler.h"
#include "kernel/user_events/user_events.h"
#include "protocol/base/cursor.h"

/* --- enabler_process.c: one process --- */

enum {
	ENABLER_TIMEOUT = 60, /* seconds for one answer; then the process is replaced */
};

int enabler_start(struct user_events *, struct enabler_process *);
int enabler_new(struct user_events *, struct enabler_process **ret);
void enabler_free(struct enabler_process *);
/* Kills it. enablers_dispatch() sees its end, and replaces it. */
void enabler_break(struct enabler_process *);
void enabler_reap(struct enabler_process *);
/* Sends a request, lending it an fd. 0 or a negative errno. */
int enabler_send(struct enabler_process *, const struct packet *, int fd);
/* Receives the answers of the oldest request. */
int enabler_receive(struct enabler_process *, struct enabler_answer *, size_t n, int flags);

/* --- enablers.c: all of them --- */

/* Starts processes that are ready for the next pages and events: starting one takes longer than filling it. 0 or a negative errno. */
int enablers_init(struct user_events *);
void enablers_free(struct user_events *);
/* Finds a process with room for one more enabler, and has it map the page. The map counts once something is added. */
int enablers_find_room(struct user_events *, struct event_page *, struct page_map **ret);
void enablers_add(struct page_map *, struct holding *);
void enablers_remove(struct user_events *, struct holding *);
/* Frees a map without enablers. */
void enablers_tidy(struct user_events *, struct page_map *);
/* No call is under way: sees to it that spare processes are started soon. */
void enablers_prepare(struct user_events *);
/* Sends the placement to its process. */
void enablers_register(struct user_events *, struct placement *);
/* Has the kernel clear the bits of holdings that have enablers. */
void enablers_clear(struct user_events *, struct holding *const *, size_t n);
/* Takes answers. Replaces processes that died, and registers their events again. A negative errno if that fails. */
int enablers_dispatch(struct user_events *);
/* The same after waiting for an answer; a process that takes too long is replaced. */
void enablers_wait(struct user_events *);
