/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The kernel frees an event a little after its last reference has ended. A name that the keeper removed a moment ago is asked
 * for again by a timer of the daemon's; the keeper answers others meanwhile.
 */

#include <sys/queue.h>

#include "kernel/kernel.h"

struct daemon;

TAILQ_HEAD(settling_list, settling);

/* How many of the calls, from the first on, have their last answer: those of REGISTER after `until` in any case. */
size_t settling_count_final(const struct kernel_call *calls, size_t n, double until);
/* Submits the calls, with `done` and `data`, in a moment. False: no memory. */
bool settling_ask(struct daemon *, struct kernel_call *calls, size_t n, kernel_done *done, void *data);
/* Submits those whose moment has come. */
void settling_look(struct daemon *);
/* For the end: calls `done` of all that wait, with the answers that there are: the name is taken. */
void settling_end(struct daemon *);

void settling_init(struct daemon *);
void settling_deinit(struct daemon *);
