/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of its connection to the daemon. */

#include <sys/types.h>

#include "kernel/kernel.h"

struct deposit_box;

/* The keeper is started with its socket as this fd. */
enum { KEEPER_SOCKET = 3 };

/* --- serve.c --- */

/*
 * Sends the kernel's facts, and serves until the daemon hangs up: 0; -EPROTO if the daemon sent something invalid, and got a
 * sentence; or the kernel's negative errno. `box` is for deposits, and NULL if nothing outlives the daemon.
 */
int keeper_serve(int socket, struct kernel *, struct deposit_box *box);
/* Sends a sentence to the daemon: the keeper can't serve it. */
void keeper_refuse(int socket, const char *sentence);

/* --- daemons.c --- */

/*
 * Serves the daemons that connect, one after the other. 0 if none connects for `hold` seconds, or the process gets SIGTERM while
 * none is connected; or the kernel's negative errno.
 */
int keeper_serve_all(int listener, uid_t owner, unsigned hold, struct kernel *);
/* Accepts a connection from the owner or root. 1 with its socket, 0 if it was from another user, or a negative errno. */
int keeper_accept(int listener, uid_t owner, int *ret);
/* The owner of the socket's file, asked for while the path still leads there. Root if there is no file. */
uid_t keeper_find_owner(int listener);
