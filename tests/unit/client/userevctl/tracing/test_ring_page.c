/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/tracing/ring_page.h"

#include "tests/suite.h"

enum { PAGE = 4096, TYPE = 1500, PADDING = 29, DELTA = 30, TIME = 31 };

static uint64_t memory[PAGE / sizeof(uint64_t)];
static struct ring_page page;
static struct ring_entry entry;

static void page_begin(uint64_t time)
{
	memset(memory, 0, sizeof(memory));
	memory[0] = time;
	page = (struct ring_page){ .at = (uint8_t *)memory, .size = PAGE, .used = RING_HEADER };
}

static void word_put(uint32_t word)
{
	memcpy(page.at + page.used, &word, sizeof(word));
	page.used += sizeof(word);
}

static void head_put(unsigned kind, uint32_t ns)
{
	word_put(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? kind << 27 | ns : ns << 5 | kind);
}

/* So many words, of which the first two have type and pid. */
static void data_put(unsigned words)
{
	memcpy(page.at + page.used, &(uint16_t){ TYPE }, sizeof(uint16_t));
	memcpy(page.at + page.used + 4, &(int32_t){ 77 }, sizeof(int32_t));
	page.used += words * sizeof(uint32_t);
}

static void page_end(uint32_t flags)
{
	memory[1] = (page.used - RING_HEADER) | flags;
	ck_assert(ring_page_open(&page, RING_HEADER));
}

static void expect_entry(uint64_t time, size_t size)
{
	ck_assert_int_eq(ring_page_next(&page, &entry), 1);
	ck_assert_uint_eq(page.time, time);
	ck_assert_uint_eq(entry.type, TYPE);
	ck_assert_int_eq(entry.pid, 77);
	ck_assert_uint_eq(entry.size, size);
}

static void expect_end(void)
{
	ck_assert_int_eq(ring_page_next(&page, &entry), 0);
	ck_assert_int_eq(ring_page_next(&page, &entry), 0);
}

TEST(entry_that_was_put_is_read)
{
	static const struct {
		uint64_t after;
		size_t size;
	} entries[] = { { 0, 8 },	   { 3, 4 },
			{ 1, 0 },	   { (1U << 27) - 1, 104 },
			{ 1U << 27, 108 }, { UINT64_C(1) << 50, 1000 },
			{ 0, 2000 } };
	uint8_t payload[2000];
	uint64_t time = 1000;

	page_begin(0);
	page.used = 0;
	memset(payload, 5, sizeof(payload));
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		ck_assert(ring_page_put(&page, time += entries[i].after, TYPE, 77, payload, entries[i].size));
	ck_assert(!ring_page_put(&page, time - 1, TYPE, 77, payload, 0));
	ck_assert(!ring_page_put(&page, time, TYPE, 77, payload, sizeof(payload)));
	ck_assert(ring_page_open(&page, RING_HEADER));
	time = 1000;
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		expect_entry(time += entries[i].after, entries[i].size);
		ck_assert_mem_eq(entry.payload, payload, entry.size);
	}
	expect_end();
}

TEST(padding_is_skipped)
{
	page_begin(100);
	head_put(3, 0);
	data_put(3);
	head_put(PADDING, 1);
	word_put(12);
	page.used += 8;
	head_put(2, 4);
	data_put(2);
	head_put(PADDING, 0);
	page.used += 400;
	page_end(0);
	expect_entry(100, 4);
	expect_entry(105, 0);
	expect_end();
}

TEST(time_is_of_the_entries_behind_it)
{
	page_begin(100);
	head_put(DELTA, 5);
	word_put(2);
	head_put(2, 1);
	data_put(2);
	head_put(TIME, 9);
	word_put(7);
	head_put(2, 2);
	data_put(2);
	page_end(0);
	expect_entry(100 + (UINT64_C(2) << 27) + 5 + 1, 0);
	expect_entry((UINT64_C(7) << 27) + 9 + 2, 0);
	expect_end();
}

TEST(flag_tells_overwritten_entries)
{
	for (unsigned flag = 0; flag < 2; flag++) {
		page_begin(1);
		head_put(2, 0);
		data_put(2);
		page_end(flag << 31 | flag << 30);
		ck_assert_int_eq(page.missed, flag);
		expect_entry(1, 0);
		expect_end();
	}
}

TEST(header_of_a_kernel_with_32_bits)
{
	page_begin(50);
	page.used = 12;
	head_put(2, 3);
	data_put(2);
	memcpy(page.at + 8, &(uint32_t){ (uint32_t)page.used - 12 }, sizeof(uint32_t));
	ck_assert(ring_page_open(&page, 12));
	expect_entry(53, 0);
	expect_end();
}

TEST(page_that_is_too_long_is_damaged)
{
	static const uint32_t sizes[] = { 0, 2, PAGE - RING_HEADER + 4, PAGE * 2 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		page_begin(1);
		memory[1] = sizes[i];
		ck_assert(!ring_page_open(&page, RING_HEADER));
		expect_end();
	}
}

TEST(entry_beyond_its_page_is_damage)
{
	uint8_t *exact = malloc(PAGE);

	page = (struct ring_page){ .at = exact, .size = PAGE };
	ck_assert(ring_page_put(&page, 1, TYPE, 77, "12345678", 8));
	for (unsigned kind = 0; kind < 32; kind++) {
		int r;

		page.used = RING_HEADER;
		head_put(kind, 1);
		ck_assert(ring_page_open(&page, RING_HEADER));
		ck_assert_uint_eq(page.end, RING_HEADER + 4 + 16);
		r = ring_page_next(&page, &entry);
		/* The type is a time's higher bits, and the pid another entry's head: of 13 words. */
		ck_assert_int_eq(r, kind >= 2 && kind <= 4 ? 1 : -EBADMSG);
	}
	free(exact);
}
