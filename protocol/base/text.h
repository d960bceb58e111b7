/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Text in a buffer of fixed size: always terminated, and marked as cut if it did not fit. */

#include "protocol/base/base.h"

enum { TEXT_EXCERPT_MAX = 40 }; /* to leave room for the sentence */

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

/* Declares a text with a buffer of so many bytes. */
#define TEXT(name, size)                                                                                               \
	char name##_buffer[size];                                                                                      \
	struct text name = text_make(name##_buffer, sizeof(name##_buffer))

void text_put(struct text *, const char *, size_t);
void text_printf(struct text *, const char *format, ...) _printf_(2, 3);
/* This character as UTF-8; U+FFFD for a number that is none. */
void text_put_character(struct text *, uint32_t point);
/* The float or double with these bits, in as few digits as reading the same value requires. In JSON nan and inf are strings. */
void text_put_float(struct text *, uint64_t bits, size_t size, bool json);
/* A JSON string in quotes; bytes that are not UTF-8 become U+FFFD. */
void text_json_string(struct text *, const char *, size_t);
/* For a terminal: control bytes, invisible characters, and bytes that are not UTF-8 as \xNN, so a record can't deceive the reader. */
void text_safe(struct text *, const char *, size_t);
/* The same in quotes, with a backslash before quotes and backslashes: everything that looks like an escape is one. */
void text_quoted(struct text *, const char *, size_t);
/*
 * For a label of OpenMetrics, between its quotes: with the format's escapes. U+FFFD and two digits stand for each byte of U+FFFD itself, of
 * invisible and control characters, and of bytes that are not UTF-8, so different texts stay different.
 */
void text_label(struct text *, const char *, size_t);
/* For sentences: safe, and only the first TEXT_EXCERPT_MAX bytes, with "..." if there are more. */
void text_excerpt(struct text *, const char *, size_t);
