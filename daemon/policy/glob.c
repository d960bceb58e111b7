/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/glob.h"

#include <fnmatch.h>
#include <locale.h>

/* A ']' that stands first in a set is one of its bytes. */
size_t glob_piece(const char *at)
{
	const char *first, *end;

	if (*at == '\\' && at[1] && strchr("*?[", at[1]))
		return 2;
	if (*at != '[')
		return 1;
	first = at + 1 + (at[1] == '!' || at[1] == '^');
	end = *first ? strchr(first + 1, ']') : NULL;
	return end ? (size_t)(end + 1 - at) : 0;
}

const char *glob_check(const char *glob)
{
	for (size_t length; *glob; glob += length) {
		length = glob_piece(glob);
		if (*glob != '[')
			continue;
		if (length == 0 || memchr(glob, '/', length))
			return "a '[' has no ']' in the same name; write \\[ for the character itself";
		for (size_t i = 1; i + 1 < length; i++)
			if (glob[i] == '[' && strchr(":.=", glob[i + 1]))
				return "there are no classes such as [[:alpha:]]; write [a-zA-Z]";
		for (size_t i = glob[1] == '!' || glob[1] == '^' ? 2 : 1; i + 3 < length; i++) {
			if (glob[i + 1] != '-')
				continue;
			if ((unsigned char)glob[i] > (unsigned char)glob[i + 2])
				return "a range in [] ends before it begins";
			i += 2;
		}
	}
	return NULL;
}

int glob_match(const char *glob, const char *name)
{
	static locale_t bytes; /* userevctl's own locale has characters of several bytes */
	locale_t before;
	int r;

	if (!bytes)
		bytes = newlocale(LC_ALL_MASK, "C", NULL);
	if (!bytes)
		return -ENOMEM;
	before = uselocale(bytes);
	r = fnmatch(glob, name, FNM_NOESCAPE);
	uselocale(before);
	return r == 0 ? 1 : r == FNM_NOMATCH ? 0 : -EINVAL;
}

const char glob_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

size_t glob_compile(const char *glob, uint64_t ret[GLOB_BYTES_MAX])
{
	size_t n = 0;

	for (size_t length; *glob; glob += length, n++) {
		char piece[GLOB_BYTES_MAX + 1];
		const char *literal = strchr(glob_characters, *glob);

		length = glob_piece(glob);
		ret[n] = literal	? UINT64_C(1) << (literal - glob_characters)
			 : *glob == '*' ? GLOB_STAR
			 : *glob == '?' ? GLOB_STAR >> 1
					: 0;
		if (*glob == '[')
			string_copy(piece, length + 1, glob);
		for (size_t i = 0; *glob == '[' && glob_characters[i]; i++)
			if (glob_match(piece, (const char[]){ glob_characters[i], '\0' }) != 0)
				ret[n] |= UINT64_C(1) << i;
	}
	return n;
}

/*
 * A name that matches both is built piece by piece. row[j]: some text matches both the pieces before `i` of the one glob and those
 * before `j` of the other. A star matches nothing, or the next piece of the other glob.
 */
bool globs_overlap(const char *a, const char *b)
{
	uint64_t one[GLOB_BYTES_MAX], other[GLOB_BYTES_MAX];
	size_t n = glob_compile(a, one), m = glob_compile(b, other);
	bool rows[2][GLOB_BYTES_MAX + 2] = { { true } };

	for (size_t i = 0; i <= n; i++) {
		bool *row = rows[i % 2], *next = rows[(i + 1) % 2];

		memset(next, 0, m + 2);
		for (size_t j = 0; j <= m; j++) {
			bool star = i < n && one[i] == GLOB_STAR, other_star = j < m && other[j] == GLOB_STAR;

			if (!row[j])
				continue;
			next[j] |= star || (other_star && i < n);
			row[j + 1] |= other_star || (star && j < m);
			next[j + 1] |= i < n && j < m && !star && !other_star && one[i] & other[j];
		}
	}
	return rows[n % 2][m];
}
