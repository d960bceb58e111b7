/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/glob.h"

/* The end of a set's bytes, where its ']' is; `end` where there is none. A ']' that stands first is one of the bytes. */
static const char *set_end(const char *set, const char *end)
{
	const char *bracket = set < end ? memchr(set + 1, ']', (size_t)(end - set - 1)) : NULL;

	return bracket ? bracket : end;
}

/* Behind "[", "[!" or "[^". */
static const char *set_begin(const char *at, const char *end, bool *ret_inverted)
{
	at++;
	*ret_inverted = at < end && (*at == '!' || *at == '^');
	return at + *ret_inverted;
}

static bool is_range(const char *at, const char *end)
{
	return end - at > 2 && at[1] == '-';
}

static bool set_has(const char *at, const char *end, unsigned char byte)
{
	while (at < end) {
		unsigned char first = (unsigned char)*at, last = first;

		if (is_range(at, end)) {
			last = (unsigned char)at[2];
			at += 2;
		}
		at++;
		if (byte >= first && byte <= last)
			return true;
	}
	return false;
}

static bool is_escape(const char *at, const char *end)
{
	return *at == '\\' && end - at > 1 && (at[1] == '*' || at[1] == '?' || at[1] == '[');
}

/* Whether what stands at `at`, which is no '*', takes this byte; and how long it is. */
static bool takes(const char *at, const char *end, char byte, size_t *ret_length)
{
	const char *first, *last;
	bool inverted;

	*ret_length = 1;
	if (*at == '?')
		return true;
	if (is_escape(at, end)) {
		*ret_length = 2;
		return at[1] == byte;
	}
	if (*at != '[')
		return *at == byte;
	first = set_begin(at, end, &inverted);
	last = set_end(first, end);
	*ret_length = (size_t)(last + 1 - at);
	return set_has(first, last, (unsigned char)byte) != inverted;
}

/* Only the last '*' is ever looked at again: what an earlier one could take more, that one can take, too. */
bool glob_matches(const char *glob, size_t glob_length, const char *name, size_t length)
{
	const char *end = glob + glob_length, *name_end = name + length;
	const char *after_star = NULL, *star_name = NULL;
	size_t step;

	while (name < name_end) {
		if (glob < end && *glob == '*') {
			after_star = ++glob;
			star_name = name;
		} else if (glob < end && takes(glob, end, *name, &step)) {
			glob += step;
			name++;
		} else if (after_star) {
			glob = after_star;
			name = ++star_name;
		} else {
			return false;
		}
	}
	while (glob < end && *glob == '*')
		glob++;
	return glob == end;
}

/* Whether some byte is taken by both of what stands there, no '*' either of them. */
static bool share_a_byte(const char *a, const char *a_end, const char *b, const char *b_end)
{
	size_t length;

	for (unsigned byte = 1; byte <= UINT8_MAX; byte++)
		if (takes(a, a_end, (char)byte, &length) && takes(b, b_end, (char)byte, &length))
			return true;
	return false;
}

/* How much of the glob stands for one thing; 1 at its end. */
static size_t step_of(const char *at, const char *end)
{
	size_t length = 1;

	if (at < end && *at != '*')
		takes(at, end, 0, &length);
	return length;
}

/*
 * A name is made that both take, piece by piece. row[j]: what stands in front of `at` in the one, and in front of b[j] in the
 * other, can be one and the same. A '*' takes nothing, or what comes next in the other.
 */
bool globs_overlap(const char *a, size_t a_length, const char *b, size_t b_length)
{
	bool rows[2][2 * GLOB_COMPARED_MAX] = { { true } }, *row = rows[0], *next = rows[1];
	const char *a_end = a + a_length, *b_end = b + b_length;

	for (const char *at = a;; at += step_of(at, a_end)) {
		memset(next, 0, sizeof(rows[0]));
		for (size_t j = 0, step; j <= b_length; j += step) {
			bool a_star = at < a_end && *at == '*', b_star = j < b_length && b[j] == '*';

			step = step_of(b + j, b_end);
			if (!row[j])
				continue;
			next[j] |= a_star || (b_star && at < a_end);
			if (j == b_length)
				break;
			row[j + step] |= b_star || a_star;
			if (!a_star && !b_star && at < a_end && share_a_byte(at, a_end, b + j, b_end))
				next[j + step] = true;
		}
		if (at == a_end)
			return row[b_length];
		row = next;
		next = row == rows[0] ? rows[1] : rows[0];
	}
}

static int check_set(const char *at, const char *end, struct text *why)
{
	bool inverted;
	const char *first = set_begin(at, end, &inverted), *last = set_end(first, end);

	if (last == end) {
		text_printf(why, "a '[' has no ']' in the same name; write \\[ for the character itself");
		return GLOB_E_WRONG;
	}
	for (at = first; at < last; at++) {
		if (*at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')) {
			text_printf(why, "there are no classes such as [[:alpha:]]; write [a-zA-Z]");
			return GLOB_E_WRONG;
		}
		if (!is_range(at, last))
			continue;
		if ((unsigned char)at[0] > (unsigned char)at[2]) {
			text_printf(why, "a range in [] ends before it begins");
			return GLOB_E_WRONG;
		}
		at += 2;
	}
	return 0;
}

int glob_check(const char *glob, size_t length, struct text *why)
{
	const char *end = glob + length;
	bool inverted;

	for (const char *at = glob; at < end; at++) {
		if (is_escape(at, end)) {
			at++;
		} else if (*at == '[') {
			int r = check_set(at, end, why);

			if (r != 0)
				return r;
			at = set_end(set_begin(at, end, &inverted), end);
		}
	}
	return 0;
}

size_t glob_literal_bytes(const char *glob, size_t length, bool *ret_wild)
{
	const char *end = glob + length;
	size_t bytes = 0;
	bool inverted;

	*ret_wild = false;
	for (const char *at = glob; at < end; at++) {
		if (*at == '*' || *at == '?' || *at == '[') {
			*ret_wild = true;
			if (*at == '[')
				at = set_end(set_begin(at, end, &inverted), end);
			continue;
		}
		if (is_escape(at, end))
			at++;
		bytes++;
	}
	return bytes;
}
