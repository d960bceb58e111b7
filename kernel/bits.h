/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Allocates bits of a status page to events. */

#include "protocol/protocol.h"

struct bits {
	uint64_t taken[WIRE_PAGE_BITS / 64]; /* in the order of allocation, see bits.c */
	uint32_t bytes;			     /* with usable bits */
	size_t first_free;		     /* no word before this one has a free bit */
	void **owners;			     /* in the same order: of the first `n_owners` bits */
	size_t n_owners;
};

/* `n` bits, bit 0 included, which is never allocated. */
void bits_init(struct bits *, uint32_t n);
/* 0, or KERNEL_E_PAGE_FULL. */
int bits_take(struct bits *, uint32_t *ret);
/* Takes this bit, which the page must have. False: it is taken. */
bool bits_take_this(struct bits *, uint32_t bit);
void bits_give(struct bits *, uint32_t bit);
void bits_deinit(struct bits *);

/* The thing that has the bit, until it is given back. False: no memory. */
bool bits_set_owner(struct bits *, uint32_t bit, void *owner);
/* NULL: the bit is free, or does not exist, or its owner was not set. */
void *bits_owner(const struct bits *, uint32_t bit);
