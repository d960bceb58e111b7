/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Data files, as they are opened, locked and asked after. */

#include "kernel/user_events/user_events.h"

/* Bytes in one range of locks. */
#define RANGE_SIZE ((uint64_t)1 << 32)

/* An open data file, through the keeper's own mount: the fd, or a negative errno. */
int data_file_open(const struct mounts *);

/* The range of bytes for this keeper's locks. 0 or a negative errno. */
int places_init(struct user_events *);
/* A data file for a stream, and where its lock is. 0 or a negative errno. */
int stream_open(struct user_events *, uint64_t *ret_place, int *ret_fd);
/* Whether any copy of the one whose lock is there is open anywhere; unguarded, a lock may be another's. */
bool stream_has_lock(const struct user_events *, uint64_t place);

/* The same of a file that is to have it there; unguarded, where its holder may have taken it away, it is locked again. */
bool stream_keeps_lock(const struct user_events *, int file, uint64_t place);

/* What will tell, in the place of the lock, whether it is open: before our copy of the file is closed. */
void stream_leave_witness(struct user_events *, struct event_stream *);
void stream_forget_witness(struct user_events *, struct event_stream *);
/* Whether any copy of it is open anywhere, by its witness or its lock. */
bool stream_is_open(struct user_events *, struct event_stream *);

/* The kernel has given this index to a new event. */
void stream_note_index(struct event_stream *, uint32_t index);
/* Sets `stranger` where an index has been given to an event that is not ours. */
void stream_check_indexes(struct event_stream *);
/* Whether nobody but us has registered anything on it. */
bool stream_is_clean(const struct event_stream *);
