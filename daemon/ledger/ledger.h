/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The promises of this daemon that its successor has to keep: a file without a name, to which entries are appended, each
 * before the promise is sent. An entry has the state of the thing with that kind and these numbers, or says that it is gone.
 * All entries together make a ledger_image. Their meaning is defined in entries.h.
 */

#include "protocol/base/table.h"

/*
 * Of the file and its entries; entries may grow at their end without a new version. Tests build a daemon with a newer version.
 */
#ifndef LEDGER_VERSION
#define LEDGER_VERSION 1
#endif

enum {
	LEDGER_DATA_MAX = 8192,	  /* bytes of one entry: a path and a little more */
	LEDGER_SPARE = 256 << 10, /* of outdated entries, before the file is rewritten */
};

struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t start; /* of the entries: anything before it is outdated */
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
	size_t lasting;			    /* bytes of valid entries at the last rewrite */
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

/* rewrite.c: when most entries are obsolete, copies the valid ones to a new place, a piece with each call. True: call it again. */
bool ledger_tidy(struct ledger *);
void ledger_rewriting_free(struct ledger *);
/* The entries are about to reach that byte: if a rewrite uses that room, ends the rewrite. It may fail. */
void ledger_make_way(struct ledger *, size_t end);

struct ledger_key {
	uint64_t kind;
	uint64_t a;
	uint64_t b;
};

/* The current state of one thing. */
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
 * Reads another daemon's ledger, up to the first incomplete entry. 0; -EPROTONOSUPPORT: a newer daemon wrote it; -EBADMSG: it
 * is no ledger; or another negative errno.
 */
int ledger_read(int fd, struct ledger_image *ret);
/* As ledger_read(), from memory that is aligned for a uint64_t. */
int ledger_parse(const uint8_t *memory, size_t size, struct ledger_image *ret);
/* The value of `check` for a complete entry. */
uint32_t ledger_check(const struct ledger_entry *);
void ledger_image_deinit(struct ledger_image *);

const struct ledger_thing *ledger_find(const struct ledger_image *, uint16_t kind, uint64_t a, uint64_t b);
/* The first of a kind after that one; NULL: the first of all, or none is left. */
const struct ledger_thing *ledger_next(const struct ledger_image *, uint16_t kind, const struct ledger_thing *after);
/* A copy of its beginning, and zeros behind that. */
void ledger_get(const struct ledger_thing *, void *ret, size_t size);

/* For rewrite.c: room up to that byte of the file, and an end behind it. 0 or a negative errno. */
int ledger_make_room(struct ledger *, size_t end);
/* The whole entry at that byte; NULL: there is none. */
const struct ledger_entry *ledger_entry_at(const uint8_t *memory, size_t size, size_t at);
