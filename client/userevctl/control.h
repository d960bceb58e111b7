/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A connection to the daemon's control socket, or to the socket of its clients. */

#include "protocol/fdset.h"
#include "protocol/row.h"
#include "protocol/wire.h"

struct control {
	int fd;
	int timeout; /* ms that control_receive() waits; -1: for ever */
	uint32_t serial;
	struct cursor rows; /* the rows of this packet that control_next_row() has not returned yet */
	bool more;	    /* packets */
	struct fdset fds;   /* of the last packet */
	uint8_t buffer[WIRE_PACKET_MAX];
};

enum { CONTROL_TIMEOUT_MS = 10000 }; /* of a new connection: for an answer that needs no waiting */

/* The last refusal, on any connection. */
extern struct control_refusal {
	uint32_t number;
	char sentence[WIRE_SENTENCE_MAX * 4 + 1]; /* safe to show */
} control_refusal;

/* Opens a connection: 0 or a negative errno. */
int control_open(const char *path, struct control **ret);
struct control *control_free(struct control *);
static inline void control_freep(struct control **control)
{
	*control = control_free(*control);
}

/* Sends one request: 0 or a negative errno. */
int control_ask(struct control *, uint16_t kind);
/* One with strings, on a new connection. `strings`: NULL for a request without any. */
int control_request(const char *path, uint16_t kind, uint16_t flags, const char *const *strings, size_t n,
		    struct control **ret);
/* The same for a request of any form: control_begin(), encode_…() into the packet, control_send(). */
struct packet control_begin(struct control *, uint16_t kind);
int control_send(struct control *, struct packet *);

/*
 * Receives one packet: 0; -ETIMEDOUT; -ECONNRESET when the daemon closed the connection; -EREMOTEIO for a refusal; -EBADMSG.
 * The message is valid until the next call.
 */
int control_receive(struct control *, struct message *ret);
/*
 * Receives one packet of the answer, whose rows control_next_row() returns: 0 or a negative errno. `more`: the answer goes on;
 * KIND_SYNCED ends it.
 */
int control_next_packet(struct control *);
/* The next row of the answer: 1; 0 at its end; or a negative errno, of control_receive(). */
int control_next_row(struct control *, struct cursor *ret);
/* A copy of the row in memory of its own. */
struct cursor row_copy(struct cursor row);
/* The rows in a row; empty if it does not have them. */
struct cursor row_rows(struct cursor row, const char *key);
/* A copy of the daemon's STATUS, over a connection of its own: 0 or a negative errno. */
int control_ask_status(const char *path, int timeout, struct cursor *ret);
/* Whether this error of control_open() means that no daemon listens. */
bool control_nobody(int error);
