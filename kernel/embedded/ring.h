/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A bounded ring of byte strings: new ones replace the oldest. Readers keep their own position. */

#include "protocol/base/base.h"

/* Begins as zeros and its size, a multiple of eight. */
struct ring {
	uint8_t *data; /* allocated with the first entry; the owner frees it */
	size_t bytes;
	size_t head;
	size_t tail;
	bool wrapped;
	uint64_t oldest; /* the number of the oldest entry; the first entry is 0 */
	uint64_t next;	 /* of the next entry to be written */
};

/*
 * Room for an entry of `size` bytes, aligned to eight, to be filled before the next call. NULL, without any change, if it is larger than the
 * ring or memory is short.
 */
void *ring_push(struct ring *, size_t size);

/* With zeros a reader begins at the first entry. `position` may be set at any time. */
struct ring_reader {
	uint64_t position; /* the number of the entry to read next */
	uint64_t at;	   /* private: the position of `offset` */
	size_t offset;	   /* private */
};

/*
 * Returns the entry at the reader's position, or the oldest one if that was replaced, and moves on. NULL at the end. Valid until the next push. Takes constant time unless `position` was set to somewhere in the middle.
 */
const void *ring_read(const struct ring *, struct ring_reader *, size_t *ret_size);
