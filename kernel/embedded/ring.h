/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A bounded ring of byte strings: the newest push the oldest out. Readers keep their own place and learn what they missed. */

#include "protocol/base/base.h"

struct ring;

/* Memory is taken when the first entry comes. -ENOMEM; -EINVAL where not one entry would fit. */
int ring_new(size_t bytes, struct ring **ret);
struct ring *ring_free(struct ring *);

/*
 * Room for an entry of `size` bytes, aligned to eight, to be filled before the next call; NULL where it is larger than the
 * ring or memory is short, and then nothing has changed.
 */
void *ring_push(struct ring *, size_t size);

/* The numbers of entries: of the oldest still there, and of the next to come. The first of all is 0. */
uint64_t ring_oldest(const struct ring *);
uint64_t ring_next(const struct ring *);

/* Zeros are a reader that begins with the first entry; `position` may be set at any time. */
struct ring_reader {
	uint64_t position; /* the number of the entry to read next */
	uint64_t missed;   /* entries that were pushed out before they were read; the reader may set it back to 0 */
	uint64_t at;	   /* private: the position that `offset` belongs to */
	size_t offset;	   /* private */
};

/*
 * The entry at the reader's position, or the oldest still there, adding to `missed` how many that skips; and moves on. NULL
 * at the end. Valid until the next push. One step each, except after `position` was set to somewhere in the middle.
 */
const void *ring_read(const struct ring *, struct ring_reader *, size_t *ret_size);
