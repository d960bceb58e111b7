/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/base/mountinfo.h"

/* The kernel writes space, tab, newline and backslash as \040 and so on. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /mount/point options tag:1 - type source options" */
bool mountinfo_parse(char *line, struct mount_line *ret)
{
	char *end = strstr(line, " - ");

	if (!end)
		return false;
	*end = '\0';
	end += strlen(" - ");
	end[strcspn(end, "\n")] = '\0';
	strsep(&line, " ");
	strsep(&line, " ");
	ret->device = strsep(&line, " ");
	ret->root = strsep(&line, " ");
	ret->point = strsep(&line, " ");
	ret->type = strsep(&end, " ");
	strsep(&end, " ");
	ret->options = end;
	if (!ret->point || !end)
		return false;
	unescape(ret->root);
	unescape(ret->point);
	return true;
}
