/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of the enabler processes. */

#include "kernel/user_events/user_events.h"

/* Starts a process, which is idle, as the first of all. 0 or a negative errno. */
int enablers_start(struct user_events *);
void enablers_free(struct user_events *);
/* Finds a process for the holding's enabler, or starts one. 0 or a negative errno. */
int enablers_add(struct user_events *, struct holding *);
void enablers_remove(struct user_events *, struct holding *);
/* Registers the events of the placement on the file: sets results and indexes. */
void enablers_register(struct placement *, int file);
/* Has the kernel clear the bits of holdings. */
void enablers_clear(struct user_events *, struct holding *const *, size_t n);
/* The same for holdings that stay; or gives them enablers again. Sets the results of the calls. */
void enablers_silence(struct user_events *, struct silencing *);
/* Ends the keeper if a process has died. 0 or a negative errno. */
int enablers_dispatch(struct user_events *);
