/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The socket to the daemon. */

#include <stdint.h>

struct reply;
struct userev;

enum connection_state {
	CONNECTION_DOWN,
	CONNECTION_INHERITED, /* after a fork: the page and the streams are usable, the connection is the parent's */
	CONNECTION_GREETING,  /* connected and HELLO sent; page and streams of the last connection stay in use */
	CONNECTION_UP,	      /* WELCOME received */
};

/* Connects, blocking until the deadline, and sends HELLO. 0 or a negative errno. */
int connection_begin(struct userev *, int64_t deadline);
/* Takes WELCOME. */
int connection_welcome(struct userev *, struct reply *, uint16_t count);
/* Closes the connection. Events that were granted stay in use as far as the kernel supports that. */
void connection_drop(struct userev *);
/* In the child of a fork. */
void connection_abandon(struct userev *);
/* Drops the connection, or a stream, whose fd the program has closed or reused. */
void connection_verify(struct userev *);
