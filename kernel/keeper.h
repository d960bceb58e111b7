/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of its conversation with the daemon. */

#include "kernel/kernel.h"

/* Where whoever starts a keeper leaves its socket. */
enum { KEEPER_SOCKET = 3 };

/* Says what the kernel is, and serves until the daemon hangs up: 0; or a negative errno: the kernel's, or the socket's. */
int keeper_serve(int socket, struct kernel *);
/* The last words of one that can't: a sentence. */
void keeper_refuse(int socket, const char *sentence);
