/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The syntax of a policy file, which is that of systemd: sections, assignments, comments, and continuation after a backslash. */

#include "daemon/policy/build.h"

char *policy_strip(char *text)
{
	static const char blanks[] = " \t\r";
	size_t length;

	text += strspn(text, blanks);
	length = strlen(text);
	while (length > 0 && strchr(blanks, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

/* Continuations are moved up to the line that they continue: the text only gets shorter. */
char *policy_read_line(struct policy_reader *reader)
{
	char *whole = NULL, *end = NULL, *line;

	while ((line = strsep(&reader->at, "\n"))) {
		const char *first = line + strspn(line, " \t\r");
		size_t length = strlen(line), backslashes = 0;

		reader->lines++;
		if (*first == '#' || *first == ';' || (!*first && !whole))
			continue;
		if (!whole) {
			whole = end = line;
			reader->number = reader->lines;
		}
		memmove(end, line, length + 1);
		/* Lines of a file from Windows end with \r. */
		while (length > 0 && end[length - 1] == '\r')
			length--;
		while (backslashes < length && end[length - 1 - backslashes] == '\\')
			backslashes++;
		/* Each pair of backslashes is two bytes of the line; the last one of an odd number continues it. */
		if (backslashes % 2 == 0)
			break;
		end += length;
		end[-1] = ' ';
		*end = '\0';
	}
	return whole ? policy_strip(whole) : NULL;
}
