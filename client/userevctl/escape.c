/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/escape.h"

#include "protocol/base/text.h"

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
	const char *found = *at < end ? memchr(letters, **at, sizeof(letters) - 1) : NULL;
	char character[5] = "";
	struct text text = text_make(character, sizeof(character));
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
		text_put_character(&text, (uint32_t)code);
	else
		text_put(&text, &(char){ (char)code }, 1);
	memcpy(ret, character, text.length);
	return text.length;
}
