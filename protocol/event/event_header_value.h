/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Values of the EventHeader format, by the numbers of its encodings and formats. For event_header.c. */

#include "protocol/base/cursor.h"
#include "protocol/base/text.h"

enum encoding {
	ENCODING_STRUCT = 1,
	ENCODING_8,
	ENCODING_16,
	ENCODING_32,
	ENCODING_64,
	ENCODING_128,
	ENCODING_ZERO_TERMINATED_8, /* units up to a zero */
	ENCODING_ZERO_TERMINATED_16,
	ENCODING_ZERO_TERMINATED_32,
	ENCODING_COUNTED_8, /* a u16 with the number of units before them */
	ENCODING_COUNTED_16,
	ENCODING_COUNTED_32,
	ENCODING_BYTES, /* a u16 with the length before them */
	ENCODINGS,
};

enum { UUID_BYTES = 16 };

/* Where values come from, and how they are shown. */
struct value_stream {
	struct cursor left;
	bool little_endian; /* but for values in the network's order */
	struct text *out;
	bool json;
};

/* A number of up to 8 bytes. */
uint64_t value_number(const struct value_stream *, const uint8_t *at, size_t size);
/* The next bytes of `from`, which may also be the metadata; 0 after its end. */
uint16_t value_take_u16(const struct value_stream *, struct cursor *from);

/* Shows the next value, which is no struct. A format that does not fit is that of the encoding. False: the value is incomplete. */
bool value_put(struct value_stream *, uint8_t encoding, uint8_t format);
void value_put_uuid(struct value_stream *, const uint8_t *at);
