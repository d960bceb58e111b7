/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The exchange of requests and answers with the daemon. */

#include "client/library/library.h"

enum { SESSION_PAUSE_MAX_MS = 5000 }; /* between two attempts to connect */

/* For how long a call waits for connect() and for each answer. Tests shorten it. */
extern int session_answer_timeout_ms;

/* Before the first packet of the process. 0 or -ENOMEM. */
int session_prepare(void);
/* From now on the child of a fork drops the userev's connection. 0 or -ENOMEM. */
int session_add(struct userev *);
void session_remove(struct userev *);

/*
 * Connects, sends and receives until everything is answered, or until the deadline. A deadline in the past does not block, and
 * does not connect before `not_before`. 0: everything is answered; -EAGAIN: answers are pending; else why there is no connection.
 */
int session_advance(struct userev *, int64_t deadline);
/* The same with the usual timeout, which starts again with each answer. */
int session_advance_patiently(struct userev *);
/* A request has had no answer for as long as that timeout. */
bool session_is_silent(const struct userev *);
/* Connects and sends HELLO if necessary. 0 or a negative errno. */
int session_connect(struct userev *, int64_t deadline);
/* As session_advance(), but does not connect. */
void session_settle(struct userev *, int64_t deadline);
/* Closes the connection. Events that were granted stay in use as far as the kernel supports that. */
void session_drop(struct userev *);
/*
 * Called by tests and writes of events, without the lock. At intervals connects, sends and receives, without waiting for the daemon
 * or for the lock.
 */
void session_look(struct userev *);
