/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/base/number.h"

bool number_parse(const char *text, uint64_t maximum, uint64_t *ret)
{
	uint64_t number = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		const uint64_t digit = (uint64_t)(*at - '0');

		if (digit > maximum || number > (maximum - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	if (at == text || *at != '\0')
		return false;
	*ret = number;
	return true;
}
