/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What the next daemon has to know of what this one has promised: a file without a name, to which entries are appended, each
 * before what it promises is sent. An entry says what holds from now on of the thing with that kind and these numbers, or that
 * there is no such thing any more. What all of them add up to is a ledger_image. Nothing here knows what the entries mean:
 * entries.h.
 */

#include "protocol/base/table.h"

/* Of the file, and of what is said in it; entries may grow at their end without a new one. Tests make a daemon with the next. */
#ifndef LEDGER_VERSION
#define LEDGER_VERSION 1
#endif

enum {
	LEDGER_DATA_MAX = 8192,	  /* bytes of one entry: a path and a little more */
	LEDGER_SPARE = 256 << 10, /* of what holds no more, before the file is written anew */
};

struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t start; /* of the entries: what is before that holds no more */
};
_Static_assert(sizeof(struct ledger_header) == 24, "header");

/* Followed by its data, and zeros to a multiple of eight. */
struct ledger_entry {
	uint32_t size;	/* of all of it; written last: 0 is the end */
	uint32_t check; /* of all that follows this */
	uint16_t kind;
	uint16_t struck; /* there is no such thing any more */
	uint32_t data_size;
	uint64_t a;
	uint64_t b;
};
_Static_assert(sizeof(struct ledger_entry) == 32, "entry");

struct ledger_rewriting;

struct ledger {
	int fd;
	uint8_t *memory;
	size_t size;
	size_t start;
	size_t used;			    /* up to here */
	size_t lasting;			    /* bytes that held when it was written anew */
	struct ledger_rewriting *rewriting; /* NULL: it is not being done */
	int failed; /* a negative errno: something was not written, so none of it is to be believed */
};

int ledger_new(struct ledger **ret);
struct ledger *ledger_free(struct ledger *);

/* Without a ledger nothing happens. */
void ledger_enter(struct ledger *, uint16_t kind, uint64_t a, uint64_t b, const void *data, size_t size);
/* With a text behind the data. */
void ledger_enter_text(struct ledger *, uint16_t kind, uint64_t a, const void *data, size_t size, const char *text);
void ledger_strike(struct ledger *, uint16_t kind, uint64_t a, uint64_t b);

/* ledger_rewrite.c. Once most of it holds no more it is written anew, a piece with each call. Whether there is more to do. */
bool ledger_tidy(struct ledger *);
void ledger_rewriting_free(struct ledger *);
/* What there is now is about to end there: where that is another place's, that goes at once. It may fail. */
void ledger_make_way(struct ledger *, size_t end);

struct ledger_key {
	uint64_t kind;
	uint64_t a;
	uint64_t b;
};

/* What holds. */
struct ledger_thing {
	struct ledger_key key;
	void *data;
	size_t size;
	UT_hash_handle by_key;
};

struct ledger_image {
	struct ledger_thing *things; /* table by key, in the order in which they were entered first */
};

/*
 * Reads what another daemon has written, as far as it is whole. 0; -EPROTONOSUPPORT: a newer daemon wrote it; -EBADMSG: it is no
 * ledger; or another negative errno.
 */
int ledger_read(int fd, struct ledger_image *ret);
/* The same of what is in memory, at an address that a uint64_t may have. */
int ledger_parse(const uint8_t *memory, size_t size, struct ledger_image *ret);
/* What `check` has to be, of an entry that is all there. */
uint32_t ledger_check(const struct ledger_entry *);
void ledger_image_deinit(struct ledger_image *);

const struct ledger_thing *ledger_find(const struct ledger_image *, uint16_t kind, uint64_t a, uint64_t b);
/* The first of a kind after that one; NULL: the first of all, or none is left. */
const struct ledger_thing *ledger_next(const struct ledger_image *, uint16_t kind, const struct ledger_thing *after);
/* A copy of its beginning, and zeros behind that. */
void ledger_get(const struct ledger_thing *, void *ret, size_t size);

/* For ledger_rewrite.c: room up to that byte of the file, and an end behind it. 0 or a negative errno. */
int ledger_make_room(struct ledger *, size_t end);
/* The whole entry at that byte; NULL: there is none. */
const struct ledger_entry *ledger_entry_at(const uint8_t *memory, size_t size, size_t at);
