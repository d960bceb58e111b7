/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Streams as data files: opening, locking, and checking whether one is still open. */

#include "kernel/user_events/user_events.h"

/* Bytes for the locks of one keeper, more than it can ever use. */
#define RANGE_SIZE ((uint64_t)1 << 40)

/* An open data file, through the keeper's own mount: an fd, or a negative errno. */
int data_file_open(const struct mounts *);

/* Draws this keeper's range of bytes for locks. 0 or a negative errno. */
int places_init(struct user_events *);
/* Opens a data file for a stream, and locks its byte. 0 or a negative errno. */
int stream_file_open(struct user_events *, uint64_t *ret_place, int *ret_fd);
/* Whether any data file but our own has a lock there. */
bool range_is_locked(const struct user_events *, uint64_t from, uint64_t n);
/* Whether the file has its lock there. Unguarded, a holder may have removed it; then it is set again. */
bool stream_has_lock(const struct user_events *, int file, uint64_t place);

/* Registers a witness, which tells instead of the lock whether the file is open, before our copy is closed. */
void stream_leave_witness(struct user_events *, struct event_stream *);
void stream_forget_witness(struct user_events *, struct event_stream *);
/* Whether any copy of the file is open, by its witness or its lock. */
bool stream_is_open(struct user_events *, struct event_stream *);

/* The kernel has given this index to an event of ours. Sets `self_registered` if it has given one to another event before. */
void stream_note_index(struct event_stream *, uint32_t index);
/* Whether only the keeper has registered events on it. */
bool stream_is_clean(const struct event_stream *);
