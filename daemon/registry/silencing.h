/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Tells the kernel which events are silent on which pages, and disconnects the clients of blocked tenants. */

#include "daemon/registry/silence.h"

struct grant;

/* Rules have changed. Tells the kernel of all changes, in this turn of the loop or in later ones. */
void silencing_begin(struct registry *);
/* At the daemon's start, before clients are served: tells the kernel of all that is silent, and waits. 0 or a negative errno. */
int silencing_restore(struct registry *, bool forced);
/* Calls `done` once the kernel has answered: perhaps before this returns. */
void silencing_wait(struct registry *, struct silence_waiter *);
/* At the daemon's end: calls all that wait. */
void silencing_end(struct registry *);

/* The grant's KERNEL_STATES, as rules and traces have them now. */
uint16_t silencing_state(const struct grant *);
/* A call that tells it. */
struct kernel_call silencing_call(struct grant *, uint16_t state);
/* For REGISTER of the grant's event: KERNEL_STATES. */
uint16_t silencing_ask(struct grant *);
/* The kernel has answered that, and rules may have changed meanwhile. */
void silencing_settle(struct grant *);

/* The sentence with which clients of a blocked tenant are refused. */
extern const char tenant_blocked_sentence[];
/* The client leaves its tenant. */
void silencing_forget_holder(struct holder *);
