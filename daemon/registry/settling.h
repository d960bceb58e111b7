/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The kernel frees an event a little after its last reference has ended. A name that the keeper removed a moment ago is asked
 * for again by a timer of the daemon's; the keeper answers others meanwhile.
 */

#include "daemon/registry/registry.h"

/* The number of calls, from the first on, with a final answer. After `until` all answers are final. */
size_t settling_count_final(const struct kernel_call *calls, size_t n, double until);
/* Submits the calls, with `done` and `data`, in a moment. False: no memory. */
bool settling_ask(struct registry *, struct kernel_call *calls, size_t n, kernel_done *done, void *data);
/* Submits the calls whose time has come. */
void settling_look(struct registry *);
/* Waits for the kernel while something is under way; for the start alone. 0 or a negative errno. */
int settling_await(struct registry *, const bool *under_way);
/* For the end: calls `done` of all that wait, with the answers that there are: the name is taken. */
void settling_end(struct registry *);

void settling_init(struct registry *);
void settling_deinit(struct registry *);
