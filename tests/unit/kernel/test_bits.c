/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/bits.h"
#include "kernel/kernel.h"
#include "tests/suite.h"

/* check writes a line for each of its own assertions: too much for assertions that are repeated a hundred thousand times. */
#define expect(truth, ...)                                                                                             \
	do                                                                                                             \
		if (!(truth))                                                                                          \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	while (0)

static const uint32_t sizes[] = { 1, 2, 3, 8, 9, 16, 17, 63, 64, 65, 520, 4095, WIRE_PAGE_BITS - 1, WIRE_PAGE_BITS };

static uint32_t take(struct bits *bits)
{
	uint32_t bit;

	expect(bits_take(bits, &bit) == 0, "no bit is left");
	return bit;
}

static void expect_full(struct bits *bits)
{
	uint32_t bit = 4711;

	ck_assert_int_eq(bits_take(bits, &bit), KERNEL_E_PAGE_FULL);
	ck_assert_uint_eq(bit, 4711);
}

TEST(every_bit_except_first_is_allocated_once)
{
	static struct bits bits;
	static bool given[WIRE_PAGE_BITS];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(given, 0, sizeof(given));
		memset(&bits, 0xff, sizeof(bits));
		bits_init(&bits, sizes[i]);
		for (uint32_t n = 1; n < sizes[i]; n++) {
			uint32_t bit = take(&bits);

			expect(bit > 0 && bit < sizes[i], "bit %u of %u", bit, sizes[i]);
			expect(!given[bit], "bit %u a second time", bit);
			given[bit] = true;
		}
		expect_full(&bits);
	}
}

TEST(bits_come_in_the_order_of_bytes)
{
	static const uint32_t expected[] = { 8, 16, 1, 9, 17, 2, 10, 18, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15 };
	static struct bits bits;

	bits_init(&bits, 19);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		ck_assert_uint_eq(take(&bits), expected[i]);
	expect_full(&bits);
}

TEST(freed_bit_is_allocated_again)
{
	static struct bits bits;

	bits_init(&bits, 19);
	for (unsigned i = 0; i < 6; i++)
		take(&bits);
	bits_give(&bits, 9);
	bits_give(&bits, 16);
	ck_assert_uint_eq(take(&bits), 16);
	ck_assert_uint_eq(take(&bits), 9);
	ck_assert_uint_eq(take(&bits), 10);
}

TEST(full_page_gives_bit_that_was_freed)
{
	static struct bits bits;

	for (size_t i = 1; i < ARRAY_SIZE(sizes); i++) {
		const uint32_t back[] = { sizes[i] - 1, 1, sizes[i] / 2 };

		bits_init(&bits, sizes[i]);
		for (uint32_t n = 1; n < sizes[i]; n++)
			take(&bits);
		for (size_t j = 0; j < ARRAY_SIZE(back); j++) {
			bits_give(&bits, back[j]);
			ck_assert_uint_eq(take(&bits), back[j]);
			expect_full(&bits);
		}
	}
}

TEST(free_bit_can_be_taken_by_number)
{
	static struct bits bits;

	for (size_t i = 1; i < ARRAY_SIZE(sizes); i++) {
		const uint32_t last = sizes[i] - 1;

		bits_init(&bits, sizes[i]);
		ck_assert(!bits_take_this(&bits, 0));
		ck_assert(bits_take_this(&bits, last));
		ck_assert(!bits_take_this(&bits, last));
		for (uint32_t n = 2; n < sizes[i]; n++)
			expect(take(&bits) != last, "bit %u a second time", last);
		expect_full(&bits);
		bits_give(&bits, last);
		ck_assert(bits_take_this(&bits, last));
	}
}

TEST(owner_is_known_until_bit_is_given_back)
{
	static struct bits bits;
	static char owners[WIRE_PAGE_BITS];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t bit;

		bits_init(&bits, sizes[i]);
		ck_assert_ptr_null(bits_owner(&bits, 1));
		while (bits_take(&bits, &bit) == 0) {
			expect(!bits_owner(&bits, bit), "bit %u has an owner", bit);
			expect(bits_set_owner(&bits, bit, &owners[bit]), "no memory");
		}
		ck_assert_ptr_null(bits_owner(&bits, 0));
		ck_assert_ptr_null(bits_owner(&bits, WIRE_PAGE_BITS));
		for (bit = 1; bit < sizes[i]; bit++)
			expect(bits_owner(&bits, bit) == &owners[bit], "bit %u has another owner", bit);
		for (bit = 1; bit < sizes[i]; bit += 7) {
			bits_give(&bits, bit);
			expect(!bits_owner(&bits, bit), "bit %u still has an owner", bit);
		}
		bits_deinit(&bits);
	}
}
