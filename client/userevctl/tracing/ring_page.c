/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A page of the kernel's ring buffer: the time of its first entry, a long with the number of bytes that follow and two flags, entries. An
 * entry begins with 32 bits, of which 5 are its length in words, or a kind, and 27 the ns since the entry before:
 *
 *	0	a longer one: the number of its bytes, including this number, is in the next 32 bits
 *	1-28	so many words
 *	29	padding: to the end of the page if its ns are 0, otherwise as long as a longer entry
 *	30	no entry: the higher bits of the ns are in the next 32 bits
 *	31	no entry: the same bits of a time, not of a difference
 *
 * These 5 bits are the lower ones on a little-endian machine, and the higher ones on a big-endian machine.
 */

#include "client/userevctl/tracing/ring_page.h"

enum {
	KIND_BITS = 5,
	TIME_BITS = 27,
	WORDS_MAX = 28,
	KIND_PADDING = 29,
	KIND_DELTA = 30,
	KIND_TIME = 31,
	WORD = 4,
	COMMITTED = (1U << 20) - 1,
	IS_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
};
#define MISSED (1U << 31)

static uint32_t pack_head(unsigned kind, uint32_t ns)
{
	return IS_BIG ? (uint32_t)kind << TIME_BITS | ns : ns << KIND_BITS | kind;
}

static void page_put_word(struct ring_page *page, uint32_t word)
{
	memcpy(page->at + page->used, &word, sizeof(word));
	page->used += sizeof(word);
}

bool ring_page_put(struct ring_page *page, uint64_t time, uint16_t type, int32_t pid, const void *payload, size_t size)
{
	const size_t words = (RING_COMMON + size + WORD - 1) / WORD;
	const uint64_t ns = page->used > 0 ? time - page->time : 0;
	const bool is_late = ns >> TIME_BITS > 0, is_long = words > WORDS_MAX;
	const size_t used = MAX(page->used, (size_t)RING_HEADER);
	uint64_t commit;
	uint8_t *data;

	if (used + WORD * (words + 1 + 2 * is_late + is_long) > page->size)
		return false;
	/* Also of a time before that of the last entry. */
	if (ns >> TIME_BITS > UINT32_MAX)
		return false;
	if (page->used == 0) {
		memset(page->at, 0, page->size);
		memcpy(page->at, &time, sizeof(time));
	}
	page->used = used;
	page->time = time;
	if (is_late) {
		page_put_word(page, pack_head(KIND_DELTA, (uint32_t)(ns & ((1U << TIME_BITS) - 1))));
		page_put_word(page, (uint32_t)(ns >> TIME_BITS));
	}
	page_put_word(page, pack_head(is_long ? 0 : (unsigned)words, is_late ? 0 : (uint32_t)ns));
	if (is_long)
		page_put_word(page, (uint32_t)((words + 1) * WORD));
	data = page->at + page->used;
	memcpy(data, &type, sizeof(type));
	memcpy(data + WORD, &pid, sizeof(pid));
	if (size > 0)
		memcpy(data + RING_COMMON, payload, size);
	page->used += words * WORD;
	commit = page->used - RING_HEADER;
	memcpy(page->at + sizeof(time), &commit, sizeof(commit));
	return true;
}

bool ring_page_open(struct ring_page *page, size_t header)
{
	uint32_t commit;

	memcpy(&page->time, page->at, sizeof(page->time));
	/* The lower half of a long of 64 bits. */
	memcpy(&commit, page->at + (IS_BIG ? header - sizeof(commit) : sizeof(page->time)), sizeof(commit));
	page->missed = commit & MISSED;
	commit &= COMMITTED;
	page->used = header;
	page->end = commit % WORD == 0 && commit <= page->size - header ? header + commit : 0;
	return page->end > header;
}

static uint32_t page_take_word(struct ring_page *page)
{
	uint32_t word;

	memcpy(&word, page->at + page->used, sizeof(word));
	page->used += sizeof(word);
	return word;
}

int ring_page_next(struct ring_page *page, struct ring_entry *ret)
{
	while (page->used < page->end) {
		const uint32_t head = page_take_word(page);
		const unsigned kind = IS_BIG ? head >> TIME_BITS : head & ((1U << KIND_BITS) - 1);
		const uint32_t ns = IS_BIG ? head & ((1U << TIME_BITS) - 1) : head >> KIND_BITS;
		size_t size = kind * WORD;

		page->time += ns;
		if (kind == 0 || kind > WORDS_MAX) {
			uint32_t word;

			if (kind == KIND_PADDING && ns == 0) {
				page->used = page->end;
				break;
			}
			if (page->end - page->used < WORD)
				return -EBADMSG;
			word = page_take_word(page);
			size = word - WORD;
			if (kind == KIND_DELTA)
				page->time += (uint64_t)word << TIME_BITS;
			if (kind == KIND_TIME)
				page->time = (uint64_t)word << TIME_BITS | ns;
			if (kind == KIND_DELTA || kind == KIND_TIME)
				continue;
		}
		if (size > page->end - page->used || size % WORD != 0)
			return -EBADMSG;
		page->used += size;
		if (kind == KIND_PADDING)
			continue;
		if (size < RING_COMMON)
			return -EBADMSG;
		ret->payload = page->at + page->used - size + RING_COMMON;
		memcpy(&ret->type, ret->payload - RING_COMMON, sizeof(ret->type));
		memcpy(&ret->pid, ret->payload - RING_COMMON + WORD, sizeof(ret->pid));
		ret->size = size - RING_COMMON;
		return 1;
	}
	return 0;
}
