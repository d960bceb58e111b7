/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/escape.h"

/* A number of that many hexadecimal digits; -1: there are fewer. */
static int take_hex(const char **at, const char *end, int digits)
{
	static const char known[] = "0123456789abcdef0123456789ABCDEF";
	int number = 0;

	for (; digits > 0; digits--, ++*at) {
		const char *digit = *at < end ? memchr(known, **at, sizeof(known) - 1) : NULL;

		if (!digit)
			return -1;
		number = number << 4 | ((digit - known) & 15);
	}
	return number;
}

/* NNNN of \uNNNN, of which two form one character beyond U+FFFF; -1: it is no character. */
static int take_unicode(const char **at, const char *end)
{
	int code = take_hex(at, end, 4), low;

	if (code < 0xd800 || code >= 0xe000)
		return code;
	if (code >= 0xdc00 || end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u')
		return -1;
	*at += 2;
	low = take_hex(at, end, 4);
	return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
}

size_t escape_take(const char **at, const char *end, char ret[4])
{
	static const char letters[] = "\"\\/bfnrtxu", meant[] = "\"\\/\b\f\n\r\t";
	static const int first[] = { 0, 0xc0, 0xe0, 0xf0 };
	const char *found = *at < end ? memchr(letters, **at, sizeof(letters) - 1) : NULL;
	size_t continuations = 0;
	int code;

	if (!found)
		return 0;
	++*at;
	if (*found == 'x')
		code = take_hex(at, end, 2);
	else
		code = *found == 'u' ? take_unicode(at, end) : meant[found - letters];
	if (code <= 0)
		return 0;
	if (*found == 'u')
		continuations = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
	ret[0] = (char)(first[continuations] | code >> 6 * continuations);
	for (size_t i = 1; i <= continuations; i++)
		ret[i] = (char)(0x80 | (code >> 6 * (continuations - i) & 0x3f));
	return 1 + continuations;
}
