/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of its conversation with the daemon. */

#include <sys/types.h>

#include "kernel/kernel.h"

struct deposit_box;

/* Where whoever starts a keeper leaves its socket. */
enum { KEEPER_SOCKET = 3 };

/* keeper.c */

/*
 * Says what the kernel is, and serves until the daemon hangs up: 0; -EPROTO: it asked for what makes no sense, and was told
 * so; or the kernel's negative errno. `box`: for what is deposited; NULL where nothing outlives the daemon.
 */
int keeper_serve(int socket, struct kernel *, struct deposit_box *box);
/* The last words of one that can't: a sentence. */
void keeper_refuse(int socket, const char *sentence);

/* keeper_daemons.c */

/*
 * Serves the daemons that connect, one after the other. 0 when none has for so many seconds, or when the process is told to
 * end (SIGTERM) while none is there; or the kernel's negative errno.
 */
int keeper_serve_all(int listener, uid_t owner, unsigned hold, struct kernel *);
/* Lets the next one in: the owner, or root. 1 with its socket; 0: it was nobody who may; or a negative errno. */
int keeper_accept(int listener, uid_t owner, int *ret);
/* Whose file the socket's is: asked while its path leads there still. Root's where it has none. */
uid_t keeper_find_owner(int listener);
