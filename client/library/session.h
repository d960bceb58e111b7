/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* A userev: its connection, its events, and the exchange of requests and answers with the daemon. */

#include <stdatomic.h>
#include <sys/queue.h>

#include "client/library/batch.h"
#include "client/library/connection.h"
#include "client/library/debug.h"
#include "client/library/stream.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

enum {
	SESSION_REQUESTS_MAX = 4,    /* pending at once: two REGISTER, a RELEASE or a HELLO, a WATCH */
	SESSION_PAUSE_MAX_MS = 5000, /* between two attempts to connect */
};

/* For how long a call waits for connect() and for each answer. Tests shorten it. */
extern int session_answer_timeout_ms;
/* After this time without a pending answer the connection is dropped. */
extern int session_silence_timeout_ms;

struct losses {
	_Alignas(8) _Atomic uint64_t queue_full;
	_Alignas(8) _Atomic uint64_t too_big;
};

/* A packet that was sent and is not answered yet. */
struct request {
	uint32_t serial;
	uint16_t answer; /* its kind */
	uint16_t count;	 /* of events */
};

struct reply {
	struct message message;
	struct fdset fds;
};

struct userev {
	LIST_ENTRY(userev) entry;
	char socket[108]; /* the size of an address; "" for the default sockets */
	enum debug debug; /* $USEREV_DEBUG */
	int wait_ms;	  /* the minimum timeout of calls: $USEREV_WAIT */
	_Atomic bool sealed;

	enum connection_state state;
	int fd; /* of the connection, or -1 */
	struct file_id id;
	uint32_t serial;
	struct request pending[SESSION_REQUESTS_MAX]; /* in the order of sending */
	unsigned n_pending;
	unsigned n_answers;    /* received so far */
	int64_t waiting_since; /* for the next answer */
	struct wire_welcome limits;
	uint8_t *page;		   /* never moves; NULL before the first WELCOME */
	uint8_t *released;	   /* a bitmap of bits to release, or NULL */
	uint32_t n_released;	   /* in that bitmap */
	bool bits_differ;	   /* no two events have the same bit: known until the next grant */
	struct stream *ungranted;  /* without a file: of events without a grant */
	struct streams streams;	   /* of this connection */
	struct streams outdated;   /* of former connections, open until all events are granted again */
	struct streams quarantine; /* closed, and not reused yet; the oldest first */
	unsigned n_quarantined;

	unsigned failures;		      /* in a row: the pause grows with them */
	int error;			      /* of the last attempt to connect, a negative errno */
	const char *tried;		      /* its socket */
	int64_t not_before;		      /* the time of the next attempt */
	char sentence[WIRE_SENTENCE_MAX + 1]; /* the daemon's refusal of the connection, or "" */
	_Atomic uint32_t look_at;	      /* the time of the next look_for_daemon() */

	bool declares; /* the userev of declared events */
	struct batches batches;
	struct batch *unanswered;   /* the first batch with events that this connection has not answered */
	struct batch *unasked;	    /* the first batch with events that were not sent on this connection */
	struct sentences sentences; /* of the last userev_register_all() */

	int poll_fd;		  /* of userev_fd(), or -1 */
	int followed;		  /* the fd that it watches, or -1 */
	bool watching;		  /* userev_watch() was called */
	bool watch_asked;	  /* on this connection */
	struct batch *scan_batch; /* where userev_changed() continues */
	uint32_t scan_at;	  /* within that batch */
	_Atomic bool rescan;	  /* a stream was found to have ended */

	struct losses losses;
	struct losses unreported;
	_Atomic uint32_t reported_at; /* milliseconds */
};

void reply_deinit(struct reply *);

/*
 * Sends a packet with the serial `userev->serial + 1`, and adds it to the pending requests. 1, or 0 if the socket's queue is full,
 * or a negative errno.
 */
int session_ask(struct userev *, const struct packet *, uint16_t answer, uint16_t count);
/*
 * Connects, sends and receives until everything is answered, or until the deadline. A deadline in the past does not block, and
 * does not connect before `not_before`. 0: everything is answered; -EAGAIN: answers are pending; else why there is no connection.
 */
int session_advance(struct userev *, int64_t deadline);
/* The same with the usual timeout, which starts again with each answer. */
int session_advance_patiently(struct userev *);
/* Connects and sends HELLO if necessary, without blocking. */
void session_greet(struct userev *);
/* As session_advance(), but does not connect. */
void session_settle(struct userev *, int64_t deadline);
