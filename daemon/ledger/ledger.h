/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The promises of this daemon that its successor has to keep: a file without a name, with an entry for each thing that was
 * promised. An entry is written before the promise is sent, and struck when the thing is gone. Their meaning is defined in entries.h.
 */

#include <sys/queue.h>

#include "protocol/base/base.h"

/* Of the file and its entries; data may grow at its end without a new version. Tests build a daemon with another version. */
#ifndef LEDGER_VERSION
#define LEDGER_VERSION 3
#endif

enum {
	LEDGER_DATA_MAX = 8160,	 /* bytes of one entry: a path and a little more */
	LEDGER_BLOCK = 16 << 10, /* bytes that are divided into slots of one size */
	LEDGER_SIZES = 13,	 /* of slots: 32, 48, … 128, 256, … 8192 bytes */
};

struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t zero[5];
};
_Static_assert(sizeof(struct ledger_header) == 32, "header");

/* A slot: an entry, followed by its data. */
struct ledger_entry {
	uint32_t size; /* of the slot; 0: it was never used, nor was the rest of its block */
	uint32_t zero;
	uint32_t kind; /* 0: the slot is free */
	uint32_t data_size;
	uint64_t a;
	uint64_t b;
};
_Static_assert(sizeof(struct ledger_entry) == 32, "entry");

LIST_HEAD(ledger_blocks, ledger_block);

struct ledger {
	int fd;
	uint8_t *memory;
	size_t size;
	size_t n_blocks;
	struct ledger_block **blocks;		 /* in the order of the file */
	struct ledger_blocks room[LEDGER_SIZES]; /* blocks with a free slot */
	struct ledger_blocks holes;		 /* blocks without any entry, which use no memory */
	int failed; /* a negative errno: something was not written, so none of it is to be believed */
};

int ledger_new(struct ledger **ret);
struct ledger *ledger_free(struct ledger *);

/*
 * Writes an entry, with the text behind its data, in the place of an earlier one of the same thing; `place`, which belongs to the thing, is 0 before the first. Without
 * a ledger nothing happens.
 */
void ledger_enter(struct ledger *, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, const void *data,
		  size_t size, const char *text);
/* The entry is of that kind from now on, and its data are this word, as they were zeros before. */
void ledger_become(struct ledger *, uint32_t place, uint16_t kind, uint64_t word);
/* Sets or clears a bit of the data, which is zeros before the first, and grows. */
void ledger_mark(struct ledger *, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, uint32_t bit, bool on);
void ledger_strike(struct ledger *, uint32_t *place);

/* An entry of another daemon's ledger, and the thing that was restored from it; NULL: none. */
struct ledger_item {
	const struct ledger_entry *entry;
	void *thing;
};

/* In the order of their kinds and numbers; of each thing there is one. */
struct ledger_image {
	struct ledger_item *items;
	size_t n;
	void *memory; /* the file */
	size_t size;
};

/* 0; -EBADMSG: it is no ledger of this version, or a damaged one; or another negative errno. */
int ledger_read(int fd, struct ledger_image *ret);
/* As ledger_read(), from memory that is aligned for a uint64_t and stays there. */
int ledger_parse(const uint8_t *memory, size_t size, struct ledger_image *ret);
void ledger_image_deinit(struct ledger_image *);

struct ledger_item *ledger_find(const struct ledger_image *, uint32_t kind, uint64_t a, uint64_t b);
bool ledger_is_marked(const struct ledger_entry *, uint32_t bit);
/* A copy of its data's beginning, and zeros behind that. */
void ledger_get(const struct ledger_entry *, void *ret, size_t size);
