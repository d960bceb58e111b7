/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* "Did you mean …": names that differ in few letters, or contain each other. */

#include "protocol/base/suggest.h"

#include <ctype.h>

#include "protocol/base/text.h"

enum { COMPARED_MAX = 200 };

/* Levenshtein distance, with a swap of neighbours as one step. Only the beginning of long names counts. */
size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][COMPARED_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	size_t length_a = strnlen(a, COMPARED_MAX), length_b = strnlen(b, COMPARED_MAX);

	for (size_t j = 0; j <= length_b; j++)
		above[j] = j;
	memset(rows[0], 0, sizeof(rows[0]));
	for (size_t i = 1; i <= length_a; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			size_t change = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);

			row[j] = MIN(MIN(above[j] + 1, row[j - 1] + 1), above[j - 1] + change);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = spare;
	}
	return above[length_b];
}

void suggest(struct suggestions *suggestions, const char *name, size_t length)
{
	const char *wanted = suggestions->wanted;
	struct suggestion candidate;
	struct text safe = text_make(candidate.name, sizeof(candidate.name));
	size_t at = suggestions->count;

	text_safe(&safe, name, length);
	candidate.distance = edit_distance(wanted, candidate.name);
	if (candidate.distance > MAX(strlen(wanted), (size_t)3) / 3 &&
	    (strlen(wanted) < 3 || strlen(candidate.name) < 3 ||
	     (!strcasestr(candidate.name, wanted) && !strcasestr(wanted, candidate.name))))
		return;
	if (at == ARRAY_SIZE(suggestions->best)) {
		if (suggestions->best[--at].distance <= candidate.distance)
			return;
	} else {
		suggestions->count++;
	}
	for (; at > 0 && suggestions->best[at - 1].distance > candidate.distance; at--)
		suggestions->best[at] = suggestions->best[at - 1];
	suggestions->best[at] = candidate;
}

const char *suggestions_nearest(const struct suggestions *suggestions)
{
	return suggestions->count > 0 ? suggestions->best[0].name : NULL;
}
