/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A row: named values, on the control socket. The reader shows known values as columns and all of them as JSON, so a new field needs no
 * new protocol.
 *
 * On the wire a field is {u8 type, u8 key length, u16 value length, key, value} without padding; a row is a sequence of fields. A value of
 * type ROWS is a sequence of rows, each behind a u16 length, one level deep.
 */

#include "protocol/base/cursor.h"

enum row_type {
	ROW_U64 = 'u',	/* eight bytes, little-endian */
	ROW_BOOL = 't', /* one byte, 0 or 1 */
	ROW_STRING = 's',
	ROW_BYTES = 'b',
	ROW_ROWS = 'r',
};

struct row_field {
	enum row_type type;
	const char *key; /* not terminated */
	size_t key_length;
	const uint8_t *value;
	size_t length;
	uint64_t number; /* of U64 and BOOL */
};

void row_put_u64(struct packet *, const char *key, uint64_t);
void row_put_bool(struct packet *, const char *key, bool);
void row_put_string(struct packet *, const char *key, const char *); /* cut after 65,535 bytes */
void row_put_bytes(struct packet *, const char *key, const void *, size_t);

/* Nested rows: begin, then for each begin_item … end_item, then end. The marks are offsets into the packet. */
size_t row_begin_rows(struct packet *, const char *key);
size_t row_begin_item(struct packet *);
void row_end_item(struct packet *, size_t mark);
void row_end_rows(struct packet *, size_t mark);

/* The next field of a row: 1, 0 at its end, or -EBADMSG. */
int row_next(struct cursor *row, struct row_field *ret);

/* The next row of a ROWS value: 1, 0 at its end, or -EBADMSG. */
int row_next_item(struct cursor *rows, struct cursor *ret_row);

/* Looks a field up by name. False: it is missing, or the row is malformed. */
bool row_find(struct cursor row, const char *key, struct row_field *ret);
uint64_t row_get_u64(struct cursor row, const char *key);			 /* 0 if it is missing; BOOL too */
void row_get_string(struct cursor row, const char *key, char *ret, size_t size); /* "" if it is missing */
