/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The embedded backend's status page. Only this process can write to it. */

#include "kernel/bits.h"
#include "kernel/page_file.h"

struct page {
	int fd;		 /* of a file; or -1, with `memory` */
	uint8_t *memory; /* of a memfd, shared with the clients, and only written */
	uint8_t on[WIRE_PAGE_BYTES];
	bool is_traced; /* something was written behind the page */
	struct bits bits;
};

/*
 * `bits` bits, bit 0 included, which is never allocated. 0 with the fd for clients, which can't be written to however it is opened; or a
 * negative errno.
 */
int page_init(struct page *, struct page_files *, uint32_t bits, int *ret_fd);
void page_deinit(struct page *, struct page_files *);

/* Frees a bit of `bits`, and switches it off. */
void page_give_bit(struct page *, uint32_t bit);

void page_set(struct page *, uint32_t bit, bool on);
/* Which traces of the tenant's own have the event, and whether no other tracer wants it: KERNEL_STATES. */
void page_trace(struct page *, uint32_t bit, uint16_t state);
