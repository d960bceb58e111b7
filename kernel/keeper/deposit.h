/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Deposits: fds that outlive the daemon, under numbers of the daemon's choice. */

#include "kernel/kernel.h"

struct deposit;

struct deposit_box {
	struct deposit *deposits; /* table by number */
	bool taken_over; /* the connected daemon has disowned what it does not want, so it has survived the rest */
};

bool deposit_is_op(enum kernel_op);
/* Carries out DEPOSIT, WITHDRAW or DEPOSITED. Takes the call's fd, also if it fails. */
void deposit_carry_out(struct deposit_box *, struct kernel_call *);
/* KERNEL_DISOWN: closes deposits that this daemon has neither made nor fetched. */
void deposit_disown(struct deposit_box *);
/* The daemon has gone: the deposits wait for the next daemon. */
void deposit_orphan(struct deposit_box *);
/* Closes all deposits, since no daemon will fetch them, and returns their number. Connections among them end. */
size_t deposit_clear(struct deposit_box *);
