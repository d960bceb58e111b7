/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Notifying the program that events were switched: userev_watch() and userev_changed(). */

#include "client/library/session.h"

/* The state of events may have changed: userev_changed() starts a new scan. */
void watch_scan_again(struct userev *);
/* The scan skips the rest of its current batch, which is about to be freed. */
void watch_scan_next(struct userev *);
/* Handles CHANGED, which is not an answer. */
int watch_take_changed(struct userev *, const struct message *);

/* Of the table of exchanges, session.h. */
bool watch_is_wanted(const struct userev *);
int watch_ask(struct userev *, uint8_t *buffer);
