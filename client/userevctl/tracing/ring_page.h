/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Pages of the kernel's ring buffer, as tracefs and recordings have them. */

#include "protocol/base/base.h"

enum { RING_COMMON = 8 }; /* type, flags, preempt count and pid, at the beginning of each entry's data */

struct ring_page {
	uint8_t *at;
	size_t size;   /* of the memory */
	uint64_t time; /* of the last entry */
	size_t used;   /* at the beginning of a new page: 0 */
	size_t end;    /* of the entries that ring_page_next() returns */
	bool missed;   /* entries before this page were overwritten */
};

/* False: there is no room, or the time is before that of the last entry. */
bool ring_page_put(struct ring_page *, uint64_t time, uint16_t type, int32_t pid, const void *payload, size_t size);

/* In front of the entries: the time of the first, and a long of the kernel, which has 64 bits where the program does not say otherwise. */
enum { RING_HEADER = 16 };
/* A page whose entries ring_page_next() returns; false: it is damaged, or has none. */
bool ring_page_open(struct ring_page *, size_t header);
struct ring_entry {
	uint16_t type;
	int32_t pid;
	const uint8_t *payload;
	size_t size;
};
/* 1; 0 at the end; -EBADMSG: the rest of the page is damaged. */
int ring_page_next(struct ring_page *, struct ring_entry *ret);
