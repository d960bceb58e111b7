/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Pure encoders and decoders. A decoder returns 0 or a positive enum refusal, never a negative errno. */

#include "protocol/base/cursor.h"
#include "protocol/protocol.h"
#include "protocol/refusal.h"

/* A checked header, and the body. */
struct message {
	uint16_t kind;
	uint8_t flags;
	uint32_t serial;
	uint8_t streams;
	uint32_t stream[WIRE_FDS_MAX];
	struct cursor body;
};

struct string_item {
	uint16_t flags;
	const char *text; /* not terminated */
	size_t length;
};

/* Checked as a whole when decoded, so strings_next() can't fail. */
struct strings {
	uint16_t flags;
	uint16_t count;
	struct cursor items;
};

struct answer {
	uint32_t refusal;
	uint32_t bit;
	uint32_t stream;
	uint32_t index;
	const char *text; /* not terminated */
	size_t length;
};

int decode_message(const void *packet, size_t size, struct message *ret);
/* HELLO, RELEASED, ACCOUNT, WATCH, LOST: a body of one struct wire_…. */
int decode_fixed(struct cursor body, uint16_t kind, void *ret);
int decode_welcome(struct cursor body, struct wire_welcome *ret, struct string_item *ret_tenant);
int decode_strings(struct cursor body, struct strings *ret);
bool strings_next(struct strings *, struct string_item *ret);
/* The items are for answers_next(). */
int decode_registered(struct cursor body, struct strings *ret);
bool answers_next(struct strings *, struct answer *ret);
/* Checked as a whole, too; `ret_bits` are four bytes each. */
int decode_release(struct cursor body, uint16_t *ret_count, struct cursor *ret_bits);
uint32_t release_next(struct cursor *bits);
int decode_changed(struct cursor body, struct wire_changed *ret, struct cursor *ret_bits);
int decode_error(struct cursor body, uint32_t *ret_refusal, struct string_item *ret_sentence);
int decode_rows(struct cursor body, uint16_t *ret_count, struct cursor *ret_rows);
/* The next of the rows, each behind its u32 length. */
bool rows_next(struct cursor *rows, struct cursor *ret_row);

/* encode_begin() makes room for the header, encode_end() fills in its size. A packet that did not fit is marked as failed. */
void encode_begin(struct packet *, uint16_t kind, uint32_t serial, uint8_t flags, const uint32_t *streams, uint8_t n);
void encode_end(struct packet *);

void encode_fixed(struct packet *, uint16_t kind, const void *body);
void encode_welcome(struct packet *, const struct wire_welcome *, const char *tenant);
/* A list: this, then its items, then encode_count() with the returned mark. */
size_t encode_list(struct packet *, uint16_t flags);
void encode_string(struct packet *, uint16_t flags, const char *text, size_t length);
void encode_answer(struct packet *, const struct answer *);
void encode_release_bit(struct packet *, uint32_t bit);
size_t encode_changed(struct packet *, uint32_t payload_max);
void encode_changed_bit(struct packet *, uint32_t bit);
void encode_error(struct packet *, uint32_t refusal, const char *sentence);
/* A row: begin, row_put_…, end. */
size_t encode_row_begin(struct packet *);
void encode_row_end(struct packet *, size_t mark);
/* Fills in the number of items of the list. */
void encode_count(struct packet *, size_t mark, uint16_t count);
