/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The messages between daemon and keeper, over a SOCK_SEQPACKET socket of their own: a batch of calls goes one way, their answers come
 * back in the same order, and fds go with both. Both programs are built from one tree, but neither trusts the other: both check sizes,
 * counts and enums.
 */

#include "kernel/kernel.h"
#include "protocol/base/cursor.h"
#include "protocol/fdset.h"

enum {
	MESSAGE_MAX = 65536,	 /* bytes of one packet: two fit into a socket's default queue */
	MESSAGE_CALLS_MAX = 100, /* in one packet, each with the longest description */
	MESSAGE_FDS_MAX = WIRE_FDS_MAX,
};

enum message_kind {
	MESSAGE_READY = 1, /* keeper, its first message: struct kernel_facts */
	MESSAGE_FAILED,	   /* keeper: it has no backend, or got an invalid packet; the facts' note says which */
	MESSAGE_CALLS,
	MESSAGE_ANSWERS,
};

struct message_header {
	uint32_t size;
	uint16_t kind;
	uint16_t count;
};
_Static_assert(sizeof(struct message_header) == 8, "header");

/* A call up to its text; this; its text, and zeros to a multiple of four. An answer has no text. */
enum { MESSAGE_CALL_BYTES = offsetof(struct kernel_call, text) };
struct message_end {
	uint32_t has_fd; /* the next fd of the packet */
	uint32_t text_length;
};
_Static_assert(MESSAGE_CALL_BYTES == 32, "calls have no padding");
_Static_assert(sizeof(struct kernel_facts) == 244, "facts have no padding");

struct message_op {
	bool gives_fd; /* its answer has an fd */
	bool takes_fd;
	bool needs_fd;
	enum kernel_op undo; /* frees the page or stream that the call makes; 0: it makes none */
};

/* Never NULL. */
const struct message_op *message_op(enum kernel_op);

/* Puts as many calls as fit, with the fds of calls and answers, into one packet, and returns their number. */
size_t message_put(struct packet *, enum message_kind, const struct kernel_call *calls, size_t n);
/* Sends that packet, made in `room`, with its fds: calls without waiting, answers with. Their number, or a negative errno. */
int message_send(int socket, uint8_t room[MESSAGE_MAX], enum message_kind, const struct kernel_call *calls, size_t n);
/* READY or FAILED. */
int message_send_facts(int socket, enum message_kind, const struct kernel_facts *);

/* A packet that was received. Fds that are not taken from it have to be closed: fdset_deinit(&message.fds). */
struct message_packet {
	struct message_header header;
	struct cursor body;
	struct fdset fds;
	size_t next_fd;
	bool fds_lost;		     /* this process had no room for more fds than those in `fds` */
	uint8_t packet[MESSAGE_MAX]; /* room for the next packet that is sent, once everything was read */
};

/* Does not wait. 1, 0 at the end of the connection, or a negative errno; -EPROTO, -EMSGSIZE: it is invalid. */
int message_receive(int socket, struct message_packet *ret);
/*
 * Reads the next call, with a copy of its text: WIRE_TENANT_MAX + 1 bytes, or as many as the packet has left. `text` is moved behind it. If
 * its fd was lost its result is -EMFILE. False: it is invalid.
 */
bool message_next_call(struct message_packet *, struct kernel_call *ret, char **text);
/* Reads the next answer into the call that was asked. If its fd was lost its result is -EMFILE. */
bool message_next_answer(struct message_packet *, struct kernel_call *call);
/* Everything was read, and each fd belonged to a call. */
bool message_is_done(const struct message_packet *);
/* Of FAILED only the note is checked. */
bool message_get_facts(const struct message_packet *, struct kernel_facts *ret);
