/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The output of userevctl: styles, tables and JSON. On a terminal columns are aligned and long texts are shortened; in a pipe
 * one tab stands between two columns and nothing is shortened. Text that comes from a client goes through text_safe() or
 * text_json_string() before it gets here.
 */

#include <stdio.h>

#include "protocol/row.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARNING, STYLE_NAME };
enum { WIDTH_LEAST = 20, WIDTH_MOST = 10000 };

struct output {
	/* Options: */
	const char *when; /* colours: "auto" as NULL, "always", "never" */
	uint64_t columns; /* as on a terminal of so many; 0: as wide as the terminal is */
	bool json;
	bool full; /* nothing is shortened */

	FILE *file;
	bool terminal; /* columns are aligned, for people */
	bool colour;
	size_t width; /* of the terminal */
};

void output_open(struct output *, FILE *);
void output_styled(const struct output *, enum style, const char *format, ...) _printf_(3, 4);
/* Flushes. 0, or a negative errno; -EPIPE: the reader has closed the pipe. */
int output_flush(const struct output *);

/* A string of a row, safe to show; "" if the row does not have it. */
struct safe_string {
	char text[1024];
};
struct safe_string row_string(struct cursor row, const char *key);
struct safe_string safe_string(const char *text);

struct phrase {
	char text[64];
};
/* "3 min 5 s" */
struct phrase humane_duration(uint64_t seconds);
/* "1 record", "2 records", "65,000 records" */
struct phrase plural(uint64_t count, const char *singular, const char *many);

/* table.c */
enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER, /* right-aligned */
	/* Shortened on a narrow terminal: */
	COLUMN_PATH, /* in the middle: "/system.slice/dock...f3.scope" */
	COLUMN_LIST, /* of items between ", ": behind the first item, which is shortened in its middle */
	COLUMN_LONG, /* at the end: "some tex..." */
};

/* How many columns of a terminal this text takes. */
size_t display_width(const char *text);
/* Shortens a text of that kind to `width`, which is at least 5. */
void shorten(enum column_kind, const char *text, size_t width, char *ret, size_t size);

struct column {
	const char *title;
	enum column_kind kind;
	unsigned rank; /* 0: always shown; on a narrow terminal the columns with the highest are left out */
};

struct cell {
	char *text;
	enum style style;
};

struct table {
	const struct column *columns;
	size_t n_columns;
	unsigned hidden;  /* bits of columns that are not shown at all */
	size_t sorted_by; /* a column, which is always shown; SIZE_MAX: none */
	struct cell *cells;
	size_t n_cells;
};

struct table table_make(const struct column *, size_t n);
void table_deinit(struct table *);
/* The next cell, row after row. The text is our own; text from clients goes through table_put_safe(). */
void table_put(struct table *, enum style, const char *text);
void table_put_safe(struct table *, enum style, const char *text, size_t length);
void table_put_number(struct table *, enum style, uint64_t);
void table_print(const struct table *, const struct output *);

/* json.c: writes JSON, one value after the other, with commas between them. The last bracket ends the line. */
struct json {
	FILE *file;
	bool comma;
	unsigned depth;
};

void json_begin(struct json *, char bracket);
void json_end(struct json *, char bracket);
void json_string(struct json *, const char *, size_t);
/* A value that is JSON already. */
void json_raw(struct json *, const char *format, ...) _printf_(2, 3);
/* Before each value in an object; and with the value. */
void json_put_key(struct json *, const char *key);
void json_put_begin(struct json *, const char *key, char bracket);
/* A whole row as an object; or its fields alone, in an object that has been begun. */
void json_row(struct json *, struct cursor row);
void json_row_fields(struct json *, struct cursor row);

/* Fields of an object that has been begun, or an object of just these, or that on a line. A text that is NULL is left out. */
#define json_put(json, ...)    json_put_fields(json, (const struct row_field[]){ __VA_ARGS__, { 0 } })
#define json_object(json, ...) json_put_object(json, (const struct row_field[]){ __VA_ARGS__, { 0 } })
#define json_print(out, ...)   json_object(&(struct json){ .file = (out) }, __VA_ARGS__)
void json_put_fields(struct json *, const struct row_field *);
void json_put_object(struct json *, const struct row_field *);
static inline struct row_field json_text(const char *key, const char *text)
{
	return (struct row_field){ ROW_STRING, key, strlen(key), (const uint8_t *)text, text ? strlen(text) : 0, 0 };
}
static inline struct row_field json_u64(const char *key, uint64_t number)
{
	return (struct row_field){ ROW_U64, key, strlen(key), NULL, 0, number };
}
static inline struct row_field json_bool(const char *key, bool truth)
{
	return (struct row_field){ ROW_BOOL, key, strlen(key), NULL, 0, truth };
}
/* Otherwise the field is left out. */
static inline struct row_field json_if(bool wanted, struct row_field field)
{
	return wanted ? field : (struct row_field){ .type = ROW_STRING, .key = field.key };
}
