/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The socket to the daemon, and the requests that await an answer. */

#include "client/library/file.h"
#include "protocol/base/base.h"
#include "protocol/base/clock.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

enum {
	CONNECTION_QUEUE_FULL_MS = 2, /* a daemon accepts hundreds of connections in that time */
	CONNECTION_REQUESTS_MAX = 4,  /* pending at once: two REGISTER, a RELEASE or a HELLO, a WATCH */
};

/* After this time without a pending answer the connection fails. Tests shorten it. */
extern int connection_silence_timeout_ms;

enum connection_state {
	CONNECTION_DOWN,
	CONNECTION_INHERITED, /* after a fork: the page and the streams are usable, the connection is the parent's */
	CONNECTION_GREETING,  /* connected and HELLO sent; page and streams of the last connection stay in use */
	CONNECTION_UP,	      /* WELCOME received */
};

/* A packet that was sent and is not answered yet. */
struct request {
	uint32_t serial;
	uint16_t answer; /* its kind */
	uint16_t count;	 /* of events */
};

struct connection {
	char socket[108];  /* the size of an address; "" for the default sockets */
	const char *tried; /* the last attempt's */
	enum connection_state state;
	int fd; /* or -1 */
	struct file_id id;
	int poll_fd; /* of userev_fd(): an epoll instance that follows the connection's fd; or -1 */
	uint32_t serial;
	struct request pending[CONNECTION_REQUESTS_MAX]; /* in the order of sending */
	unsigned n_pending;
	unsigned n_answers;	    /* received so far */
	int64_t waiting_since;	    /* for the next answer */
	struct wire_welcome limits; /* until WELCOME: those of the protocol */
};

/* -ENAMETOOLONG. */
int connection_init(struct connection *, const char *socket);
/* Connects, blocking until the deadline. 0 or a negative errno; -EAGAIN: the daemon's queue is full. */
int connection_open(struct connection *, int64_t deadline);
/* Closes the fd if it is still the library's, and forgets pending requests. */
void connection_close(struct connection *, enum connection_state);
/* The fd of userev_fd(), or a negative errno. */
int connection_poll_fd(struct connection *);

/* Begins a packet with the next serial. There is one at a time. */
struct packet connection_begin(const struct connection *, uint16_t kind);
/* Sends it, and adds it to the pending requests. 1, -EAGAIN if the socket's queue is full, or another negative errno. */
int connection_ask(struct connection *, struct packet *, uint16_t answer, uint16_t count);
/*
 * Receives a packet, which is valid until the next call that begins or receives a packet. 0 or a negative errno; -EAGAIN: there is
 * none; -ETIMEDOUT: there is none, and the silence lasts too long.
 */
int connection_receive(struct connection *, struct message *, struct fdset *);
/* Waits until there is a packet, or room for one. 0, or -EAGAIN at the deadline, or a negative errno. */
int connection_wait(const struct connection *, int64_t deadline);
/* 0; -ETIMEDOUT: the silence lasts too long; -EAGAIN: the deadline has passed. */
int connection_check_time(const struct connection *, int64_t deadline);

/* Milliseconds until the deadline; 0 once it has passed. */
static inline int connection_left_ms(int64_t deadline)
{
	return (int)MIN(MAX(deadline - clock_ms(), 0), INT32_MAX);
}
