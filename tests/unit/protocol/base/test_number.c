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
		const size_t length = strlen(cases[i].text);
		/* Nothing may be read behind the text; a sanitizer notices. */
		char *text = malloc(MAX(length, (size_t)1));
		uint64_t number = 4711;
		bool good;

		memcpy(text, cases[i].text, length);
		good = number_parse(text, length, cases[i].maximum, &number) == NUMBER_GOOD;
		ck_assert_msg(good == cases[i].good, "'%s'", cases[i].text);
		free(text);
		ck_assert_uint_eq(number, cases[i].good ? cases[i].number : 4711);
	}
}
