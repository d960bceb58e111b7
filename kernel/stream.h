/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Data files, as they are opened, locked and asked after. */

#include "kernel/user_events.h"

/* An open data file, through the keeper's own mount: the fd, or a negative errno. */
int data_file_open(const struct mounts *);

/* A data file for a stream, with its lock at that place. */
int stream_open(struct user_events *, uint64_t place, int *ret_fd);
/* Whether any copy of the one whose lock is there is open anywhere. */
bool stream_is_open(const struct user_events *, uint64_t place);
/* Whether nobody but us has registered anything on it. */
bool stream_is_clean(const struct event_stream *);
