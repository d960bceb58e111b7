/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The messages between daemon and keeper, over a SOCK_SEQPACKET socket of their own: a batch of calls goes one way, their answers come
 * back in the same order, and fds go with both. Both programs are built from one tree, but neither trusts the other: both check sizes,
 * counts and enums.
 */

#include "kernel/kernel.h"
#include "protocol/base/cursor.h"
#include "protocol/protocol.h"

enum {
	MESSAGE_MAX = 65536,	 /* bytes of one packet: two fit into a socket's default queue */
	MESSAGE_CALLS_MAX = 100, /* in one packet, each with the longest description */
	MESSAGE_FDS_MAX = WIRE_FDS_MAX,
};

enum message_kind {
	MESSAGE_READY = 1, /* keeper, its first message: the facts of its backend */
	MESSAGE_FAILED,	   /* keeper: it has no backend, or got an invalid packet; a sentence */
	MESSAGE_CALLS,
	MESSAGE_ANSWERS,
};

struct message_header {
	uint32_t size;
	uint16_t kind;
	uint16_t count;
};
_Static_assert(sizeof(struct message_header) == 8, "header");

/* Followed by its text, and zeros to a multiple of four. */
struct message_call {
	uint16_t op;
	uint16_t flags;
	uint32_t page;
	uint32_t stream;
	uint32_t bit;
	uint64_t number;
	uint32_t index;
	uint32_t has_fd; /* the next one of the packet */
	uint32_t zero;
	uint32_t text_length;
};
_Static_assert(sizeof(struct message_call) == 40, "call");

struct message_answer {
	int32_t result;
	uint32_t bit;
	uint32_t index;
	uint32_t has_fd; /* as in a call */
	uint64_t number;
};
_Static_assert(sizeof(struct message_answer) == 24, "answer");

struct message_ready {
	uint16_t backend;
	uint16_t flags;
	uint8_t guarded;
	uint8_t shared_page;
	uint8_t deposits;
	uint8_t zero;
	uint16_t zeros;
	uint16_t note_length; /* bytes follow, and zeros to a multiple of four */
	uint32_t page_bits;
	uint32_t capacity;
	uint32_t payload_max;
};
_Static_assert(sizeof(struct message_ready) == 24, "ready");

/* Whether the answer to such a call has an fd. */
bool message_op_gives_fd(enum kernel_op);
/* Whether the call may have an fd, and whether it must. */
bool message_op_takes_fd(enum kernel_op);
bool message_op_needs_fd(enum kernel_op);
/* Whether it makes a page or a stream, and the call that frees it again. */
bool message_op_makes(enum kernel_op);
struct kernel_call message_undo(const struct kernel_call *);

/* Puts as many calls as fit into one packet, with their fds and those of their answers, and returns their number. */
size_t message_put_calls(struct packet *, const struct kernel_call *calls, size_t n);
void message_put_answers(struct packet *, const struct kernel_call *calls, size_t n);
void message_put_ready(struct packet *, const struct kernel_facts *);
void message_put_failed(struct packet *, const char *sentence);

/* Reads the header. False: not a message. */
bool message_read(const void *packet, size_t size, struct message_header *ret, struct cursor *ret_body);
/*
 * The next call of MESSAGE_CALLS; its text is copied to `text`: WIRE_TENANT_MAX + 1 bytes, or as many as `body` has left.
 * `ret_has_fd`: one of the packet's fds belongs to it.
 */
bool message_next_call(struct cursor *body, struct kernel_call *ret, char *text, bool *ret_has_fd);
/* The next answer of MESSAGE_ANSWERS, into a call that was asked; `ret_has_fd`: one of the packet's fds is for it. */
bool message_next_answer(struct cursor *body, struct kernel_call *call, bool *ret_has_fd);
bool message_get_ready(struct cursor body, struct kernel_facts *ret);
/* Terminated. */
bool message_get_failed(struct cursor body, char ret[WIRE_SENTENCE_MAX + 1]);
