/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Numbers from text. */

#include "protocol/base/base.h"

enum number_result { NUMBER_GOOD, NUMBER_NONE, NUMBER_TOO_LARGE };

/* Decimal digits and nothing else: unlike strtoull(), no blanks, no sign, and nothing wraps around. */
static inline enum number_result number_parse(const char *text, size_t length, uint64_t most, uint64_t *ret)
{
	uint64_t number = 0;

	if (length == 0)
		return NUMBER_NONE;
	/* The text need not end with a zero: no function for strings may read it. */
	for (size_t i = 0; i < length; i++)
		if (text[i] < '0' || text[i] > '9')
			return NUMBER_NONE;
	for (size_t i = 0; i < length; i++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
			return NUMBER_TOO_LARGE;
	if (number > most)
		return NUMBER_TOO_LARGE;
	*ret = number;
	return NUMBER_GOOD;
}
