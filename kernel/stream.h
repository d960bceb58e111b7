/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Data files, as they are opened, locked and asked after. */

#include "kernel/user_events.h"

/* An open data file, through the keeper's own mount: the fd, or a negative errno. */
int data_file_open(const struct mounts *);

/* A data file for a stream of that number, with its lock. */
int stream_open(struct user_events *, uint32_t number, int *ret_fd);
/* Whether any copy of it is open anywhere. */
bool stream_is_open(struct user_events *, const struct event_stream *);
/* Whether nobody but us has registered anything on it. */
bool stream_is_clean(const struct event_stream *);
