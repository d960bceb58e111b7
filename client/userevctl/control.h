/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A connection to the daemon's control socket, or to the socket of its clients. */

#include "protocol/fdset.h"
#include "protocol/row.h"
#include "protocol/wire.h"

struct control {
	int fd;
	uint32_t serial;
	uint32_t refusal;
	char sentence[WIRE_SENTENCE_MAX * 4 + 1]; /* of the last refusal, safe to show */
	struct cursor rows; /* the rows of this packet that control_next_row() has not returned yet */
	bool more;
	uint8_t buffer[WIRE_PACKET_MAX];
};

enum { CONTROL_TIMEOUT_MS = 10000 }; /* for an answer that needs no waiting */

/* Opens a connection: 0 or a negative errno. */
int control_open(const char *path, struct control **ret);
struct control *control_free(struct control *);
static inline void control_freep(struct control **control)
{
	*control = control_free(*control);
}

/* Sends one request: 0 or a negative errno. */
int control_ask(struct control *, uint16_t kind);
int control_ask_strings(struct control *, uint16_t kind, uint16_t flags, const char *const *strings, size_t n);
/* The same for a request of any form: control_begin(), encode_…() into the packet, control_send(). */
struct packet control_begin(struct control *, uint16_t kind);
int control_send(struct control *, struct packet *);

/*
 * Receives one packet: 0; -ETIMEDOUT after that many milliseconds (-1: waits for ever); -ECONNRESET when the daemon closed the
 * connection; -EREMOTEIO for a refusal, with its text in `sentence`; -EBADMSG. The message is valid until the next call.
 */
int control_receive(struct control *, int timeout, struct message *ret);
/* … with the file descriptors that came with it, also if it fails; the caller closes them. */
int control_receive_fds(struct control *, int timeout, struct message *ret, struct fdset *ret_fds);
/* The next row of the answer: 1; 0 at its end; or a negative errno. */
int control_next_row(struct control *, struct cursor *ret);
/* A copy of the row in memory of its own. */
struct cursor row_copy(struct cursor row);
/* The rows in a row; empty if it does not have them. */
struct cursor row_rows(struct cursor row, const char *key);
/* Asks for an answer and its first row: 1; 0: the answer is empty; or a negative errno. */
int control_ask_row(struct control *, uint16_t kind, struct cursor *ret);
/* Whether this error of control_open() means that no daemon listens. */
bool control_nobody(int error);
