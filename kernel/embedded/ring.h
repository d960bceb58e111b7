/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A bounded ring of byte strings: new ones replace the oldest. Readers keep their own position, and learn how many they missed. */

#include "protocol/base/base.h"

struct ring;

/* Allocates memory with the first entry. -ENOMEM; -EINVAL if not even one entry would fit. */
int ring_new(size_t bytes, struct ring **ret);
struct ring *ring_free(struct ring *);

/*
 * Room for an entry of `size` bytes, aligned to eight, to be filled before the next call. NULL, without any change, if it is larger than the
 * ring or memory is short.
 */
void *ring_push(struct ring *, size_t size);

/* The numbers of the oldest entry and of the next entry to be written. The first entry is 0. */
uint64_t ring_oldest(const struct ring *);
uint64_t ring_next(const struct ring *);

/* With zeros a reader begins at the first entry. `position` may be set at any time. */
struct ring_reader {
	uint64_t position; /* the number of the entry to read next */
	uint64_t missed;   /* entries that were replaced before they were read; may be set to 0 */
	uint64_t at;	   /* private: the position of `offset` */
	size_t offset;	   /* private */
};

/*
 * Returns the entry at the reader's position, or the oldest one, adding the number of missed entries to `missed`, and moves on. NULL at the
 * end. Valid until the next push. Takes constant time unless `position` was set to somewhere in the middle.
 */
const void *ring_read(const struct ring *, struct ring_reader *, size_t *ret_size);
