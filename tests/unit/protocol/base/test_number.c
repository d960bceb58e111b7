/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Decimal numbers. */

#include "protocol/base/number.h"
#include "tests/suite.h"

TEST(numbers_are_decimal_digits_up_to_maximum)
{
	static const struct {
		const char *text;
		uint64_t maximum;
		bool good;
		uint64_t number;
	} cases[] = {
		{ "0", 0, true, 0 },
		{ "1", 0, false, 0 },
		{ "10", 10, true, 10 },
		{ "11", 10, false, 0 },
		{ "007", 9, true, 7 },
		{ "18446744073709551615", UINT64_MAX, true, UINT64_MAX },
		{ "18446744073709551616", UINT64_MAX, false, 0 },
		{ "99999999999999999999", UINT64_MAX, false, 0 },
		{ "", UINT64_MAX, false, 0 },
		{ "-1", UINT64_MAX, false, 0 },
		{ "+1", UINT64_MAX, false, 0 },
		{ " 1", UINT64_MAX, false, 0 },
		{ "1 ", UINT64_MAX, false, 0 },
		{ "0x1", UINT64_MAX, false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t number = 4711;

		ck_assert_msg((number_parse(cases[i].text, strlen(cases[i].text), cases[i].maximum, &number) ==
			       NUMBER_GOOD) == cases[i].good,
			      "'%s'", cases[i].text);
		ck_assert_uint_eq(number, cases[i].good ? cases[i].number : 4711);
	}
}
END_TEST

SUITE("number", numbers_are_decimal_digits_up_to_maximum)
