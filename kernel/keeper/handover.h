/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* From the process that may mount and load to the one that serves and may nothing, by systemd's hands. */

#include "kernel/keeper/mounts.h"

/* What was prepared, or why it was not. */
struct preparation {
	struct mounts mounts;
	bool guarded;
	char no_guard[WIRE_SENTENCE_MAX - 64]; /* why it is not */
	char failure[WIRE_SENTENCE_MAX + 1];   /* not "": there is nothing to serve with */
};

#define PREPARATION_NONE                                                                                               \
	(struct preparation)                                                                                           \
	{                                                                                                              \
		.mounts = {.tracefs = -1, .pages = -1, .pages_read_only = -1 }                                         \
	}

void preparation_deinit(struct preparation *);

/* Puts it into the file descriptor store of the unit that we are part of. 0 or a negative errno. */
int handover_put(const struct preparation *);
/*
 * Takes what this process was started with: the listening socket into `ret_listener`, and what was put. 0, -ENOENT where
 * nothing was handed over at all, or a negative errno.
 */
int handover_take(int *ret_listener, struct preparation *ret);
