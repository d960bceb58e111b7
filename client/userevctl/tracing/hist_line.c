/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The lines of an event's hist file. */

#include "client/userevctl/tracing/hist_line.h"

#include <stdio.h>

#include "protocol/protocol.h"

/* Behind "NAME: "; NULL: something else is there. */
static const char *skip_name(const char *at, const char *name)
{
	const size_t length = strlen(name);

	at += strspn(at, " ");
	if (strncmp(at, name, length) != 0 || at[length] != ':')
		return NULL;
	at += length + 1;
	return at + strspn(at, " ");
}

/* "us: ~ 2^10, path: /cart": the values of the keys, in which a program's text may have any form. */
static bool hist_line_read_keys(const struct hist_names *names, const char *at, const char *end, struct hist_line *ret)
{
	for (size_t i = 0; i < names->n_keys; i++) {
		const bool is_last = i + 1 == names->n_keys;
		const char *value = skip_name(at, names->name[i]), *value_end = end;
		char next[WIRE_DESCRIPTION_MAX + 8];

		snprintf(next, sizeof(next), ", %s:", is_last ? "" : names->name[i + 1]);
		if (value && !is_last)
			value_end = strstr(value, next);
		if (!value || !value_end || value_end > end)
			return false;
		at = value_end + !is_last;
		/* A text without a character: its blanks go on behind it. */
		value = MIN(value, value_end);
		while (value_end > value && value_end[-1] == ' ')
			value_end--;
		ret->at[i] = value;
		ret->length[i] = (size_t)(value_end - value);
	}
	return true;
}

bool hist_line_read(const char *line, const struct hist_names *names, struct hist_line *ret)
{
	static const char counts[] = " } hitcount:";
	const char *at, *end = NULL;
	char *behind;

	for (const char *next = strstr(line, counts); next; next = strstr(next + 1, counts))
		end = next;
	if (line[0] != '{' || !end || !hist_line_read_keys(names, line + 1, end, ret))
		return false;
	ret->hits = strtoull(end + strlen(counts), &behind, 10);
	at = behind;
	for (size_t i = names->n_keys; i < names->n; i++) {
		at = skip_name(at, names->name[i]);
		if (!at)
			return false;
		ret->at[i] = at;
		ret->length[i] = strspn(at, "0123456789");
		at += ret->length[i];
	}
	return true;
}
