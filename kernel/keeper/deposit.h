/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The deposit box: fds under numbers of the daemon's choice, which outlive it. */

#include "kernel/kernel.h"

struct deposit;

struct deposit_box {
	struct deposit *deposits; /* table by number */
	bool taken_over;	  /* this daemon has disowned what it does not want, so it has survived the rest */
};

bool deposit_is_op(enum kernel_op);
/* Carries one of these out; its fd is the box's, whatever becomes of the call. */
void deposit_carry_out(struct deposit_box *, struct kernel_call *);
/* The daemon has asked for all that it wants: KERNEL_DISOWN. The rest ends. */
void deposit_disown(struct deposit_box *);
/* It has gone: what there is waits for the next one. */
void deposit_orphan(struct deposit_box *);
/* Nobody is there to ask for them any more: what is a connection ends. How many there were. */
size_t deposit_clear(struct deposit_box *);
