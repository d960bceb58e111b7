/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A status page that only we can write, and the allocation of its bits. */

#include "protocol/protocol.h"

struct page {
	uint8_t *memory; /* shared with the clients, so only ever written */
	uint8_t on[WIRE_PAGE_BYTES];
	uint64_t taken[WIRE_PAGE_BITS / 64]; /* in the order of allocation, see page.c */
	uint32_t bytes;			     /* that have bits to give */
	size_t first_free;		     /* no word before this one has a bit to give */
};

/*
 * With `bits` bits, bit 0 included, which is never given. 0 with the fd for clients, which cannot be written through however
 * it is opened; or a negative errno.
 */
int page_init(struct page *, uint32_t bits, int *ret_fd);
void page_deinit(struct page *);

/* 0 with a bit that is off, or KERNEL_E_PAGE_FULL. */
int page_take_bit(struct page *, uint32_t *ret);
/* Turns it off, too. */
void page_give_bit(struct page *, uint32_t bit);

void page_set(struct page *, uint32_t bit, bool on);
