/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Deposits: fds that outlive the daemon, under numbers of the daemon's choice. */

#include "kernel/kernel.h"

struct deposit_box {
	struct deposit *deposits; /* table by number */
	bool taken_over; /* the connected daemon has disowned what it does not want, so it has survived the rest */
};

/*
 * Carries out DEPOSIT, WITHDRAW and DEPOSITED, and takes the call's fd, also if that fails. DISOWN closes deposits that this daemon has
 * neither made nor fetched. Returns whether nothing is left to do for the kernel.
 */
bool deposit_carry_out(struct deposit_box *, struct kernel_call *);
/* The daemon has gone: the deposits wait for the next daemon. */
void deposit_orphan(struct deposit_box *);
/* Closes all deposits, since no daemon will fetch them, and returns their number. Connections among them end. */
size_t deposit_clear(struct deposit_box *);
