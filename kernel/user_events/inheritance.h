/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Pages and streams that outlive the daemon for which they were made, or the keeper that made them. */

#include "kernel/user_events/user_events.h"

/* The daemon has gone. */
void inheritance_orphan(struct kernel *);
/* Frees disowned streams of which no copy is open. */
void inheritance_look(struct user_events *);

/* Calls; they return answers. */
int on_page_fetch(struct user_events *, struct kernel_call *, const struct target *);
int on_stream_fetch(struct user_events *, struct kernel_call *, const struct target *);
int on_disown(struct user_events *, struct kernel_call *, const struct target *);
int on_page_adopt(struct user_events *, struct kernel_call *, const struct target *);
int on_stream_adopt(struct user_events *, struct kernel_call *, const struct target *);
