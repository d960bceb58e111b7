/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Hands mounts from the privileged process to the one that serves, through systemd. */

#include "kernel/keeper/mounts.h"

struct preparation {
	int listener; /* on which daemons connect; -1 */
	struct mounts mounts;
	enum wire_backend backend;
	bool guarded;
	char no_native[WIRE_SENTENCE_MAX - 64]; /* why containers don't get the kernel's own file */
	char no_guard[WIRE_SENTENCE_MAX - 64];	/* why not */
	char failure[WIRE_SENTENCE_MAX + 1];	/* "": none; otherwise the keeper can't serve */
};

#define PREPARATION_NONE                                                                                               \
	(struct preparation)                                                                                           \
	{                                                                                                              \
		.listener = -1, .mounts = {                                                                            \
			.tracefs = -1,                                                                                 \
			.pages = -1,                                                                                   \
			.pages_read_only = -1,                                                                         \
			.native = -1,                                                                                  \
			.native_files = { -1, -1, -1, -1 }                                                             \
		}                                                                                                      \
	}

void preparation_deinit(struct preparation *);

/* Puts it into the file descriptor store of this process's unit. 0 or a negative errno. */
int handover_put(const struct preparation *);
/* Takes the fds that this process was started with. 0, -ENOENT if there is no listening socket, or a negative errno. */
int handover_take(struct preparation *ret);
