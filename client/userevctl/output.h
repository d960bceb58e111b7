/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What userevctl prints: styles, tables and JSON. On a terminal columns are aligned and what is too long is shortened;
 * in a pipe nothing is, and one tab stands between two columns. Whatever came from a client goes through text_safe() or
 * text_json_string() on its way here.
 */

#include <stdio.h>

#include "protocol/row.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARNING, STYLE_NAME };
enum colour_when { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

struct output {
	FILE *file;
	bool terminal; /* columns are aligned, for people */
	bool colour;
	bool json;
	bool full;	/* nothing is shortened */
	unsigned width; /* of the terminal */
};

/* `width`: as for a terminal of so many columns; 0: as wide as it is, if it is one. */
void output_init(struct output *, FILE *, enum colour_when, unsigned width);
void output_styled(const struct output *, enum style, const char *format, ...) _printf_(3, 4);
/* How many columns of a terminal this text takes. */
size_t display_width(const char *text);
/* Flushes. 0, or a negative errno; -EPIPE: nobody reads any more. */
int output_flush(const struct output *);

/* A string of a row, safe to show; "" where there is none. */
struct safe_string {
	char text[1024];
};
struct safe_string row_string(struct cursor row, const char *key);
struct safe_string make_safe(const char *text);

/* "3 min 5 s" */
void humane_duration(uint64_t seconds, char *ret, size_t size);
/* "1 record", "2 records", "65,000 records" */
struct plural {
	char text[64];
};
struct plural plural(uint64_t count, const char *singular, const char *many);
/* Keeps both ends: "/system.slice/dock...f3.scope". `width` is at least 5. */
void shorten_middle(const char *text, size_t width, char *ret, size_t size);
/* "some tex..." */
void shorten_end(const char *text, size_t width, char *ret, size_t size);
/* Of items between ", ", whole ones as long as they fit; the first by itself in its middle. */
void shorten_list(const char *text, size_t width, char *ret, size_t size);

/* ctl_table.c: tables. */
enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER, /* right-aligned */
	COLUMN_PATH,   /* shortened in its middle where the terminal is narrow */
	COLUMN_LIST,   /* of paths: shortened to those that fit */
	COLUMN_LONG,   /* shortened at its end */
};

struct column {
	const char *title;
	enum column_kind kind;
};

struct cell {
	char *text;
	enum style style;
};

struct table {
	const struct column *columns;
	size_t n_columns;
	struct cell *cells;
	size_t n_cells;
	size_t capacity;
	bool failed; /* no memory */
};

struct table table_make(const struct column *, size_t n);
void table_deinit(struct table *);
/* The next cell, row after row. Of the project's own making: made safe where it holds what others wrote. */
void table_put(struct table *, enum style, const char *text);
void table_put_safe(struct table *, enum style, const char *text, size_t length);
void table_put_number(struct table *, enum style, uint64_t);
/* 0 or -ENOMEM, if memory was short on the way. */
int table_print(const struct table *, const struct output *);

/* ctl_json.c: writes JSON, one value after the other, with the commas where they belong. */
struct json {
	FILE *file;
	bool comma;
};

void json_begin(struct json *, char bracket);
void json_end(struct json *, char bracket);
/* Before each value in an object. */
void json_key(struct json *, const char *key, size_t length);
void json_string(struct json *, const char *, size_t);
void json_u64(struct json *, uint64_t);
void json_bool(struct json *, bool);
void json_hex(struct json *, const void *, size_t);
/* A value that is JSON already. */
void json_raw(struct json *, const char *);
/* A whole row as an object; its fields alone, in an object that has been begun. */
void json_row(struct json *, struct cursor row);
void json_row_fields(struct json *, struct cursor row);
