/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Leaves the ledger and the clients' connections with the keeper, for the next daemon. */

#include "protocol/base/base.h"

struct client;
struct connections;

enum { DEPOSIT_LEDGER = 0 }; /* its number; a client's connection has the client's */

/* The next daemon continues with the ledger as it is: nothing more is entered, struck or withdrawn. */
void deposit_end(struct connections *);
/* At the end of a turn: gives the ledger up if it could not be written. */
void deposit_check(struct connections *);

/* Deposits everything, for a new keeper. */
void deposit_all(struct connections *);
/* The client's connection, if there is a ledger. False: its request has to be answered first. */
bool deposit_connection(struct client *);
/* Before the daemon ends: deposits connections for which that was still to be done, and waits for the keeper's answers. */
void deposit_rest(struct connections *);
/* Closes it, and the keeper's copy, unless it is kept for the next daemon. */
void deposit_close(struct client *);
