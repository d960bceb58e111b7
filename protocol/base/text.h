/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Text written into a buffer of fixed size: always terminated, cut where it is full, and it remembers that it was. */

#include "protocol/base/base.h"

enum { TEXT_EXCERPT_MAX = 40 }; /* so that there is room for the sentence */

struct text {
	char *buffer;
	size_t size;
	size_t length;
	bool cut;
};

static inline struct text text_make(char *buffer, size_t size)
{
	buffer[0] = '\0';
	return (struct text){ .buffer = buffer, .size = size };
}

void text_put(struct text *, const char *, size_t);
void text_printf(struct text *, const char *format, ...) _printf_(2, 3);
/* In quotes, with everything escaped that JSON wants escaped; bytes that are not UTF-8 become U+FFFD. */
void text_json_string(struct text *, const char *, size_t);
/* For a terminal: control bytes, characters that nobody sees, and bytes that are not UTF-8 as \xNN: a record cannot deceive. */
void text_safe(struct text *, const char *, size_t);
/*
 * For a label of OpenMetrics, between its quotes: with the format's escapes, and each byte of what is not UTF-8, could drive a screen
 * or shows nothing as U+FFFD and two digits. U+FFFD itself is written so, too: two different texts never become the same.
 */
void text_label(struct text *, const char *, size_t);
/* What a sentence complains about: safe, and only the first TEXT_EXCERPT_MAX bytes, with "..." where there are more. */
void text_excerpt(struct text *, const char *, size_t);
