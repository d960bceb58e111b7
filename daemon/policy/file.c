/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/file.h"

#define BLANKS " \t\r"

struct policy_reader policy_reader_make(char *text)
{
	static const char mark[] = "\xef\xbb\xbf";

	return (struct policy_reader){ .at = strncmp(text, mark, strlen(mark)) == 0 ? text + strlen(mark) : text };
}

/* The next line, cut out of the text; NULL at the end. */
static char *reader_next_line(struct policy_reader *reader)
{
	reader->number++;
	return strsep(&reader->at, "\n");
}

static char *strip(char *text)
{
	size_t length;

	text += strspn(text, BLANKS);
	length = strlen(text);
	while (length > 0 && strchr(BLANKS, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

static bool is_comment(const char *line)
{
	line += strspn(line, BLANKS);
	return *line == '#' || *line == ';';
}

/* Whether the line ends with an odd number of backslashes: each pair of them is two bytes of the line. */
static bool line_continues(const char *line, size_t *ret_length)
{
	size_t length = strlen(line), backslashes = 0;

	/* Lines of a file from Windows end with \r. */
	while (length > 0 && line[length - 1] == '\r')
		length--;
	while (backslashes < length && line[length - 1 - backslashes] == '\\')
		backslashes++;
	*ret_length = length;
	return backslashes % 2 == 1;
}

/* A line and its continuations, without the comments between them. The text only gets shorter. */
static char *reader_next_whole_line(struct policy_reader *reader, unsigned *ret_number)
{
	char *whole = reader_next_line(reader), *tail = whole, *more;
	size_t length;

	*ret_number = reader->number;
	if (!whole || is_comment(whole))
		return whole;
	while (line_continues(tail, &length)) {
		tail[length - 1] = ' ';
		tail += length;
		*tail = '\0';
		do
			more = reader_next_line(reader);
		while (more && is_comment(more));
		if (!more)
			break;
		memmove(tail, more, strlen(more) + 1);
	}
	return whole;
}

bool policy_reader_next(struct policy_reader *reader, struct policy_line *ret)
{
	char *line, *sign;
	unsigned number;
	size_t length;

	do {
		line = reader_next_whole_line(reader, &number);
		if (!line)
			return false;
		line = strip(line);
	} while (*line == '\0' || is_comment(line));

	*ret = (struct policy_line){ .kind = LINE_WRONG, .number = number, .name = line };
	length = strlen(line);
	sign = strchr(line, '=');
	if (*line == '[' && length > 1 && line[length - 1] == ']') {
		line[length - 1] = '\0';
		ret->kind = LINE_SECTION;
		ret->name = strip(line + 1);
	} else if (*line == '[') {
		ret->wrong = "a section's name ends with ']', and nothing stands behind it";
	} else if (!sign) {
		ret->wrong = "write [Section], Key=value, or # and a comment";
	} else if (sign == line) {
		ret->wrong = "the key is missing in front of '='";
	} else {
		*sign = '\0';
		ret->kind = LINE_ASSIGNMENT;
		ret->name = strip(line);
		ret->value = strip(sign + 1);
	}
	return true;
}
