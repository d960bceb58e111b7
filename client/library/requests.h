/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Requests and their answers, a file each; session.c has the table. A function that asks returns 1 if it has sent a packet, 0 if there is
 * nothing to ask for, -EAGAIN if the socket's queue is full, or another negative errno.
 */

#include "client/library/library.h"

/* hello.c: HELLO and WELCOME. */
int hello_ask(struct userev *);
int hello_take(struct userev *, const struct message *, struct fdset *, uint16_t count);

/* register.c: REGISTER and REGISTERED. */
int register_ask(struct userev *);
int register_take(struct userev *, const struct message *, struct fdset *, uint16_t count);

/* release.c: RELEASE and RELEASED. */
/* Its events are off and not registered, and will be released at the daemon. */
void release_batch(struct userev *, struct batch *);
/* An event with this bit was released. */
void release_bit(struct userev *, uint32_t bit);
int release_ask(struct userev *);
int release_take(struct userev *, const struct message *, struct fdset *, uint16_t count);

/* watch.c: WATCH, WATCHING and CHANGED. */
int watch_ask(struct userev *);
/* Takes CHANGED, which is not an answer. */
int watch_take_changed(struct userev *, const struct message *);

/* loss.c: lost records, counted, and reported to the daemon in LOST. */
/* Counts one more lost record. A later record, if no other call, reports it. Lock-free. */
void loss_add(struct userev *, _Atomic uint64_t *count);
/* Sends the daemon how many records were lost since the last report. With the lock held. */
void loss_report(struct userev *);

/* trace.c: traces that the tenant makes of itself. */
/* Takes TRACED, which is not an answer. */
int traces_take(struct userev *, const struct message *, struct fdset *);
/* Writes the record to the traces that have the event. The first piece begins with the index. Whether the stream gets it, too. */
bool traces_write(struct userev *, const struct userev_event *, const struct iovec *pieces, int n);
