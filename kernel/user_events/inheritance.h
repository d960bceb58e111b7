/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Pages and streams that outlive the daemon that had them made, or the keeper that made them. */

#include "kernel/user_events/user_events.h"

int inheritance_init(struct user_events *);
/* Whoever asked has gone. */
void inheritance_orphan(struct user_events *);
/* True, once, where it is time for the next; for epoll's sake it has to be asked by everybody who hears of it. */
bool inheritance_is_due(struct user_events *);
/* Looks for disowned streams of which no copy is left. Nothing is under way. */
void inheritance_look(struct user_events *);

/* The calls; answers. */
int on_page_fetch(struct user_events *, struct kernel_call *);
int on_stream_fetch(struct user_events *, struct kernel_call *);
int on_disown(struct user_events *, struct kernel_call *);
int on_page_adopt(struct user_events *, struct kernel_call *);
int on_stream_adopt(struct user_events *, struct kernel_call *);
