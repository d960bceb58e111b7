/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * An event in one line: `name[:FLAG[,FLAG…]] [type field[; type field]…]`, as the kernel's user_events take it. This parser accepts the
 * kernel's syntax except where it has a reason not to.
 */

#include "protocol/base/text.h"
#include "protocol/protocol.h"

enum {
	DESCRIPTION_FIELDS_MAX = 128, /* a description of 511 bytes has room for 102: "u8 a;" is five bytes */
	DESCRIPTION_NAME_MAX = 200,   /* a prefix and a multi-format suffix still make a directory's name of 255 */
	DESCRIPTION_ARRAY_MAX = 1024, /* the kernel's MAX_FIELD_ARRAY_SIZE */
	DESCRIPTION_ZEROS = 16,	      /* end a text, so that a parser may compare so many bytes at any place of it */
};

enum field_kind {
	FIELD_UNSIGNED,
	FIELD_SIGNED,
	FIELD_CHARS,  /* char[N], unsigned char[N] */
	FIELD_STRUCT, /* opaque bytes */
	FIELD_DATA_LOC,
	FIELD_REL_LOC,
};

struct field {
	enum field_kind kind;
	const char *type; /* in the canonical text, not terminated */
	size_t type_length;
	const char *name;
	size_t name_length;
	uint32_t offset;  /* in the payload */
	uint32_t size;	  /* in the payload; 4 for the dynamic ones */
	uint32_t element; /* dynamic ones: the size of one element */
	bool is_signed;	  /* dynamic ones: of the elements */
	bool is_text;	  /* char data, which ends in NUL where it is dynamic */
};

/* The fields point into `canonical`, so a description is not to be copied by assignment. */
struct description {
	char canonical[WIRE_DESCRIPTION_MAX +
		       DESCRIPTION_ZEROS]; /* "name type field; type field": one space, no flags */
	size_t length;
	size_t name_length; /* canonical begins with the name */
	size_t n_fields;
	struct field field[DESCRIPTION_FIELDS_MAX];
	uint32_t size; /* of the fixed part: the shortest payload */
};

/*
 * Reads `length` bytes. 0, or REFUSAL_BAD_DESCRIPTION with a sentence in `why` that says what to change, e.g.
 * "field 2: 'long' has no fixed size; use s64 or u64". Never anything negative. `ret` is undefined on failure.
 */
int description_parse(const char *text, size_t length, struct description *ret, struct text *why);
/* The same of text in canonical form; other text is refused, without a sentence. */
int description_parse_canonical(const char *text, size_t length, struct description *ret);

/* Whether an event may have this name. */
bool description_is_name(const char *text, size_t length);
