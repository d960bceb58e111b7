/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/file.h"

#define BLANKS " \t\r"

struct policy_reader policy_reader_make(char *text, size_t length)
{
	size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	return (struct policy_reader){ .at = text + mark, .end = text + length };
}

/* The next line of the text, cut out of it; NULL at the end. */
static char *next_line(struct policy_reader *reader)
{
	char *line = reader->at, *newline;

	if (line == reader->end)
		return NULL;
	newline = memchr(line, '\n', (size_t)(reader->end - line));
	reader->at = newline ? newline + 1 : reader->end;
	if (newline)
		*newline = '\0';
	reader->number++;
	return line;
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

/* Whether it goes on in the next line: of several backslashes at its end each pair is two bytes of the line. */
static bool goes_on(const char *line, size_t *ret_length)
{
	size_t length = strlen(line), backslashes = 0;

	/* A file from elsewhere has another byte there. */
	while (length > 0 && line[length - 1] == '\r')
		length--;
	while (backslashes < length && line[length - 1 - backslashes] == '\\')
		backslashes++;
	*ret_length = length;
	return backslashes % 2 == 1;
}

/* With the lines behind it in which it goes on; comments between them are none of it. The text only gets shorter by that. */
static char *next_whole_line(struct policy_reader *reader, unsigned *ret_number)
{
	char *whole = next_line(reader), *tail = whole, *more;
	size_t length;

	*ret_number = reader->number;
	if (!whole || is_comment(whole))
		return whole;
	while (goes_on(tail, &length)) {
		tail[length - 1] = ' ';
		tail += length;
		*tail = '\0';
		do
			more = next_line(reader);
		while (more && is_comment(more));
		if (!more)
			break;
		memmove(tail, more, strlen(more) + 1);
	}
	return whole;
}

static void read_section(char *line, struct policy_line *ret)
{
	size_t length = strlen(line);

	ret->kind = LINE_SECTION;
	if (length > 1 && line[length - 1] == ']') {
		line[length - 1] = '\0';
		ret->name = strip(line + 1);
		return;
	}
	ret->kind = LINE_WRONG;
	ret->wrong = "a section's name ends with ']', and nothing stands behind it";
}

static void read_assignment(char *line, struct policy_line *ret)
{
	char *sign = strchr(line, '=');

	ret->kind = LINE_WRONG;
	if (!sign) {
		ret->wrong = "write [Section], Key=value, or # and a comment";
	} else if (sign == line) {
		ret->wrong = "the key is missing in front of '='";
	} else {
		*sign = '\0';
		ret->kind = LINE_ASSIGNMENT;
		ret->name = strip(line);
		ret->value = strip(sign + 1);
	}
}

bool policy_reader_next(struct policy_reader *reader, struct policy_line *ret)
{
	unsigned number;
	char *line;

	while ((line = next_whole_line(reader, &number))) {
		line = strip(line);
		if (*line == '\0' || is_comment(line))
			continue;
		*ret = (struct policy_line){ .number = number, .name = line };
		if (*line == '[')
			read_section(line, ret);
		else
			read_assignment(line, ret);
		return true;
	}
	return false;
}
