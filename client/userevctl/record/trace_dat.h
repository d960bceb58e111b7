/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The format trace.dat, version 7; pure. See trace_dat.c. */

#include "client/userevctl/record/recording.h"
#include "client/userevctl/tracing/ring_page.h"

enum {
	DAT_PAGE = 4096,
	DAT_HALF = 1 << 20,
	DAT_DATA = DAT_PAGE + 2 * DAT_HALF, /* where the pages begin */
	DAT_HEADER = 32,
	DAT_LEAD = 1024, /* longer than the options of a half */
	DAT_FORMAT_MAX = 32768,
	DAT_CHUNK_PAGES = 64,			 /* that are compressed together, at most */
	DAT_CHUNK_HEADER = 2 * sizeof(uint32_t), /* the size compressed, and the size of the pages */

	/* Types of entries in pages. The kernel's own begin below these, and none of its records are in a recording. */
	TYPE_EVENT = 1000, /* tells the name and the fields of a type */
	TYPE_WRITER = 1001,
	TYPE_LOST = 1002,
	TYPE_FIRST = 1003, /* of the events that TYPE_EVENT tells */
	TYPES_MAX = 65536,

	NOTE_MAX = 2 * WIRE_DESCRIPTION_MAX + WIRE_TENANT_MAX + 2 * TENANT_NAME_MAX,
};

/* Bytes that are put one behind the other; too many if `n` exceeds `size`. */
struct bytes {
	uint8_t *at;
	size_t n, size;
};
void bytes_put(struct bytes *, const void *, size_t);

/* The file's first bytes; they point at half 0 or 1. `compressed`: the pages are. */
void dat_put_header(struct bytes *, unsigned half, bool compressed);
/* The texts that trace-cmd needs: formats of events, each behind its size, and names of processes. */
struct dat_texts {
	uint32_t n_formats;
	struct bytes formats, comms;
	bool compressed; /* the pages are, not these texts */
};
/* A half, whose place in the file is its number; only the options at its beginning have the totals. */
void dat_put_half(struct bytes *, unsigned half, const struct dat_texts *, const struct totals *);
void dat_put_options(struct bytes *, unsigned half, const struct dat_texts *, const struct totals *);
/* The half that a header points at. False: it is no header of ours. */
bool dat_read_header(const uint8_t header[static DAT_HEADER], unsigned *ret_half, bool *ret_compressed);
bool dat_read_options(const uint8_t *options, size_t size, struct totals *ret);

/* format.c: the text of an event's format file in tracefs, for that type. */
struct description;
void format_put(struct text *, unsigned type, const char *name, const struct description *);

/* note.c: entries of our own types: numbers, then strings. */
#define NOTE_EVENT "userevctl_event u64 type; __rel_loc char[] event; __rel_loc char[] fields"
#define NOTE_WRITER                                                                                                    \
	"userevctl_writer u64 uid; u64 claimed_by; __rel_loc char[] comm; __rel_loc char[] tenant; "                   \
	"__rel_loc char[] name; __rel_loc char[] engine"
#define NOTE_LOST "userevctl_lost u64 records"
enum { NOTE_NUMBERS = 2, NOTE_STRINGS = 4 };
struct note {
	uint64_t number[NOTE_NUMBERS];
	const char *string[NOTE_STRINGS];
};
/* The number of its numbers and of its strings follow from the type. The size, or 0: it is too long. */
size_t note_write(uint16_t type, const struct note *, uint8_t *buffer, size_t capacity);
/* False: it is damaged. The strings stay in the payload. */
bool note_read(uint16_t type, const uint8_t *payload, size_t size, struct note *ret);
