/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which bits of a status page are given to events. */

#include "protocol/protocol.h"

struct bits {
	uint64_t taken[WIRE_PAGE_BITS / 64]; /* in the order of allocation, see bits.c */
	uint32_t bytes;			     /* that have bits to give */
	size_t first_free;		     /* no word before this one has a bit to give */
};

/* With so many bits, bit 0 included, which is never given. */
void bits_init(struct bits *, uint32_t n);
/* 0, or KERNEL_E_PAGE_FULL. */
int bits_take(struct bits *, uint32_t *ret);
/* Just that one, which the page has. False: it is taken. */
bool bits_take_this(struct bits *, uint32_t bit);
void bits_give(struct bits *, uint32_t bit);
