/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* libev's loop, with answers to its errors. */

#include <stdbool.h>
#include <stdint.h>

struct epoll_event;

/* Before the first loop. */
void loop_init(void);
/* One for the whole process, which exits after a line in the log where it can't have a loop. */
struct ev_loop *loop_new(void);

/*
 * libev's instance of epoll. In events of fds that are not libev's, data.u64 is LOOP_EVENT_TAG and a pointer; the loop only passes them on.
 * An instance of their own, watched by libev's, would not do: whenever an fd is added to such a one the kernel takes a mutex of the whole
 * machine, which any process can keep busy.
 */
extern int loop_epoll;
#define LOOP_EVENT_TAG (UINT64_C(1) << 63)
/*
 * Before an fd that another process has, too, is closed: that alone would leave it in the instance, and libev would take its next event for
 * one of the fd that has its number by then, which it would not watch any more.
 */
void loop_forget(int fd);
/* The next of these events that this turn has found. */
bool loop_next_event(struct epoll_event *ret);
