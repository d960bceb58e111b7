/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A page of the kernel's ring buffer, as trace-cmd reads it: the time of its first entry, the number of bytes that follow, entries. An
 * entry begins with 32 bits, of which 5 are its length in words, or a kind, and 27 the ns since the entry before:
 *
 *	0	a longer one: the number of its bytes, including this number, is in the next 32 bits
 *	1-28	so many words
 *	29	padding
 *	30	no entry: the higher bits of the ns are in the next 32 bits
 *
 * These 5 bits are the lower ones on a little-endian machine, and the higher ones on a big-endian machine.
 */

#include "client/userevctl/record/trace_dat.h"

enum {
	PAGE_HEADER = 16,
	KIND_BITS = 5,
	TIME_BITS = 27,
	WORDS_MAX = 28,
	KIND_TIME = 30,
	WORD = 4,
	IS_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
};

static uint32_t pack_head(unsigned kind, uint32_t ns)
{
	return IS_BIG ? (uint32_t)kind << TIME_BITS | ns : ns << KIND_BITS | kind;
}

static void page_put_word(struct page *page, uint32_t word)
{
	memcpy(page->at + page->used, &word, sizeof(word));
	page->used += sizeof(word);
}

bool page_put(struct page *page, uint64_t time, uint16_t type, int32_t pid, const void *payload, size_t size)
{
	const size_t words = (ENTRY_COMMON + size + WORD - 1) / WORD;
	const uint64_t ns = page->used > 0 ? time - page->time : 0;
	const bool is_late = ns >> TIME_BITS > 0, is_long = words > WORDS_MAX;
	const size_t needed = WORD * (words + 1 + (is_late ? 2 : 0) + (is_long ? 1 : 0));
	uint64_t commit;

	if (MAX(page->used, (size_t)PAGE_HEADER) + needed > DAT_PAGE)
		return false;
	if (page->used > 0 && (time < page->time || ns >> TIME_BITS > UINT32_MAX))
		return false;
	if (page->used == 0) {
		memset(page->at, 0, DAT_PAGE);
		memcpy(page->at, &time, sizeof(time));
		page->used = PAGE_HEADER;
	}
	page->time = time;
	if (is_late) {
		page_put_word(page, pack_head(KIND_TIME, (uint32_t)(ns & ((1U << TIME_BITS) - 1))));
		page_put_word(page, (uint32_t)(ns >> TIME_BITS));
	}
	page_put_word(page, pack_head(is_long ? 0 : (unsigned)words, is_late ? 0 : (uint32_t)ns));
	if (is_long)
		page_put_word(page, (uint32_t)((words + 1) * WORD));
	memcpy(page->at + page->used, &type, sizeof(type));
	memcpy(page->at + page->used + WORD, &pid, sizeof(pid));
	if (size > 0)
		memcpy(page->at + page->used + ENTRY_COMMON, payload, size);
	page->used += words * WORD;
	commit = page->used - PAGE_HEADER;
	memcpy(page->at + sizeof(time), &commit, sizeof(commit));
	return true;
}

bool page_open(struct page *page, size_t *ret_end)
{
	uint64_t commit;

	memcpy(&page->time, page->at, sizeof(page->time));
	memcpy(&commit, page->at + sizeof(page->time), sizeof(commit));
	page->used = PAGE_HEADER;
	*ret_end = PAGE_HEADER + (size_t)MIN(commit, (uint64_t)DAT_PAGE);
	return commit > 0 && commit <= DAT_PAGE - PAGE_HEADER && commit % WORD == 0;
}

static uint32_t page_take_word(struct page *page)
{
	uint32_t word;

	memcpy(&word, page->at + page->used, sizeof(word));
	page->used += sizeof(word);
	return word;
}

int page_next(struct page *page, size_t end, struct page_entry *ret)
{
	while (page->used < end) {
		const uint32_t head = page_take_word(page);
		const unsigned kind = IS_BIG ? head >> TIME_BITS : head & ((1U << KIND_BITS) - 1);
		size_t size = kind * WORD;

		page->time += IS_BIG ? head & ((1U << TIME_BITS) - 1) : head >> KIND_BITS;
		if (kind == 0 || kind == KIND_TIME) {
			uint32_t word;

			if (end - page->used < WORD)
				return -EBADMSG;
			word = page_take_word(page);
			page->time += kind == KIND_TIME ? (uint64_t)word << TIME_BITS : 0;
			size = word - WORD;
		}
		if (kind == KIND_TIME)
			continue;
		if (kind > WORDS_MAX || size < ENTRY_COMMON || size > end - page->used || size % WORD != 0)
			return -EBADMSG;
		memcpy(&ret->type, page->at + page->used, sizeof(ret->type));
		memcpy(&ret->pid, page->at + page->used + WORD, sizeof(ret->pid));
		ret->payload = page->at + page->used + ENTRY_COMMON;
		ret->size = size - ENTRY_COMMON;
		page->used += size;
		return 1;
	}
	return 0;
}
