/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A line of `emit --stdin`.
 *
 *	status=200 path="/a \"b\"\x0a" mark='x' list=[1,-2]
 *	{"status":200,"path":"/a \"b\"\n","mark":120,"list":[1,-2]}
 *
 * are the same: what tail shows, either way, can be emitted again. What it becomes is never longer than what it was, so it
 * is rewritten where it stands, and nothing is allocated.
 */

#include "client/userevctl/emit/emit.h"

struct splitter {
	const char *from; /* a NUL ends the line */
	char *to;	  /* never behind `from` */
	const char **assignment;
	size_t n;
	size_t most;
	struct text *why;
};

static int refuse(struct splitter *splitter, const char *sentence)
{
	text_printf(splitter->why, "%s", sentence);
	return REFUSAL_BAD_DESCRIPTION;
}

static int refuse_at(struct splitter *splitter, const char *wanted)
{
	text_printf(splitter->why, "%s is missing before '", wanted);
	text_excerpt(splitter->why, splitter->from, strlen(splitter->from));
	text_put(splitter->why, "'", 1);
	return REFUSAL_BAD_DESCRIPTION;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct splitter *splitter)
{
	while (is_blank(*splitter->from))
		splitter->from++;
}

static void put(struct splitter *splitter, char c)
{
	*splitter->to++ = c;
}

static void copy(struct splitter *splitter)
{
	put(splitter, *splitter->from++);
}

static int begin_assignment(struct splitter *splitter)
{
	if (splitter->n == splitter->most)
		return refuse(splitter, "there are more fields than an event can have");
	splitter->assignment[splitter->n++] = splitter->to;
	return 0;
}

/* --- what is in double quotes --- */

/* `digits` of them at `from`; -1 where they are not. */
static int hex_number(const char *from, int digits)
{
	int number = 0;

	for (int i = 0; i < digits; i++) {
		const char *all = "0123456789abcdef", *found;
		char c = from[i] >= 'A' && from[i] <= 'F' ? (char)(from[i] | 0x20) : from[i];

		found = c ? strchr(all, c) : NULL;
		if (!found)
			return -1;
		number = number * 16 + (int)(found - all);
	}
	return number;
}

static void put_utf8(struct splitter *splitter, int code)
{
	if (code < 0x80) {
		put(splitter, (char)code);
		return;
	}
	if (code < 0x800) {
		put(splitter, (char)(0xc0 | code >> 6));
	} else {
		if (code < 0x10000) {
			put(splitter, (char)(0xe0 | code >> 12));
		} else {
			put(splitter, (char)(0xf0 | code >> 18));
			put(splitter, (char)(0x80 | (code >> 12 & 0x3f)));
		}
		put(splitter, (char)(0x80 | (code >> 6 & 0x3f)));
	}
	put(splitter, (char)(0x80 | (code & 0x3f)));
}

static bool is_low_surrogate(int code)
{
	return code >= 0xdc00 && code < 0xe000;
}

/* \uNNNN, of which two make one character beyond U+FFFF. */
static int copy_unicode(struct splitter *splitter)
{
	int code = hex_number(splitter->from, 4);

	if (code < 0)
		return refuse(splitter, "\\u wants four hexadecimal digits");
	splitter->from += 4;
	if (code >= 0xd800 && code < 0xdc00 && splitter->from[0] == '\\' && splitter->from[1] == 'u') {
		int low = hex_number(splitter->from + 2, 4);

		if (is_low_surrogate(low)) {
			code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
			splitter->from += 6;
		}
	}
	if (code == 0)
		return refuse(splitter, "a text cannot hold a NUL");
	if (code >= 0xd800 && code < 0xe000)
		return refuse(splitter, "\\u is half of a character");
	put_utf8(splitter, code);
	return 0;
}

static int copy_byte(struct splitter *splitter)
{
	int byte = hex_number(splitter->from, 2);

	if (byte < 0)
		return refuse(splitter, "\\x wants two hexadecimal digits");
	if (byte == 0)
		return refuse(splitter, "a text cannot hold a NUL");
	splitter->from += 2;
	put(splitter, (char)byte);
	return 0;
}

static int copy_escape(struct splitter *splitter)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char letter = *++splitter->from;

	if (letter == '\0')
		return refuse(splitter, "the line ends in a backslash");
	splitter->from++;
	if (letter == 'u')
		return copy_unicode(splitter);
	if (letter == 'x')
		return copy_byte(splitter);
	found = strchr(letters, letter);
	if (!found)
		return refuse(splitter, "a backslash stands before \", \\, /, b, f, n, r, t, xNN or uNNNN");
	put(splitter, meant[found - letters]);
	return 0;
}

static int copy_quoted(struct splitter *splitter)
{
	int r = 0;

	splitter->from++;
	while (r == 0 && *splitter->from != '"') {
		if (*splitter->from == '\0')
			return refuse(splitter, "a double quote is not closed");
		if (*splitter->from == '\\')
			r = copy_escape(splitter);
		else
			copy(splitter);
	}
	if (r == 0)
		splitter->from++;
	return r;
}

/* --- FIELD=VALUE, as on the command line --- */

/* ' ' has a blank that separates nothing. */
static void copy_character(struct splitter *splitter)
{
	const char *from = splitter->from;

	if (from[0] == '\'' && from[1] && from[2] == '\'')
		for (int i = 0; i < 3; i++)
			copy(splitter);
}

static int copy_value(struct splitter *splitter)
{
	if (*splitter->from == '"')
		return copy_quoted(splitter);
	copy_character(splitter);
	while (*splitter->from && !is_blank(*splitter->from))
		copy(splitter);
	return 0;
}

static int copy_assignment(struct splitter *splitter)
{
	int r = begin_assignment(splitter);

	while (r == 0 && *splitter->from && !is_blank(*splitter->from) && *splitter->from != '=')
		copy(splitter);
	if (r == 0 && *splitter->from == '=') {
		copy(splitter);
		r = copy_value(splitter);
	}
	if (r == 0 && *splitter->from && !is_blank(*splitter->from))
		r = refuse_at(splitter, "a blank");
	return r;
}

static int split_assignments(struct splitter *splitter)
{
	int r = 0;

	for (skip_blanks(splitter); r == 0 && *splitter->from; skip_blanks(splitter)) {
		r = copy_assignment(splitter);
		if (r != 0)
			break;
		/* The blank first: the NUL may take its place. */
		splitter->from += *splitter->from != '\0';
		put(splitter, '\0');
	}
	return r;
}

/* --- JSON --- */

static bool accept(struct splitter *splitter, char c)
{
	skip_blanks(splitter);
	if (*splitter->from != c)
		return false;
	splitter->from++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What JSON takes for a whole number; elsewhere a 0 in front makes it octal. */
static int copy_number(struct splitter *splitter)
{
	const char *digits;

	skip_blanks(splitter);
	digits = splitter->from + (*splitter->from == '-');
	if (!is_digit(digits[0]) || (digits[0] == '0' && is_digit(digits[1])))
		return refuse_at(splitter, "a whole number, a text or an array of whole numbers");
	if (*splitter->from == '-')
		copy(splitter);
	while (is_digit(*splitter->from))
		copy(splitter);
	return strchr(".eE", *splitter->from) && *splitter->from ? refuse_at(splitter, "the end of a whole number") : 0;
}

static int copy_array(struct splitter *splitter)
{
	int r = 0;

	copy(splitter);
	if (!accept(splitter, ']')) {
		r = copy_number(splitter);
		while (r == 0 && accept(splitter, ',')) {
			put(splitter, ',');
			r = copy_number(splitter);
		}
		if (r == 0 && !accept(splitter, ']'))
			r = refuse_at(splitter, "']'");
	}
	put(splitter, ']');
	return r;
}

static int copy_json_value(struct splitter *splitter)
{
	skip_blanks(splitter);
	if (*splitter->from == '"')
		return copy_quoted(splitter);
	if (*splitter->from == '[')
		return copy_array(splitter);
	return copy_number(splitter);
}

static int copy_key(struct splitter *splitter)
{
	const char *key = splitter->to;
	int r;

	skip_blanks(splitter);
	if (*splitter->from != '"')
		return refuse_at(splitter, "a field's name in double quotes");
	r = copy_quoted(splitter);
	if (r == 0 && memchr(key, '=', (size_t)(splitter->to - key)))
		return refuse(splitter, "no field's name has a '='");
	return r;
}

static int copy_member(struct splitter *splitter)
{
	int r = begin_assignment(splitter);

	if (r == 0)
		r = copy_key(splitter);
	if (r == 0 && !accept(splitter, ':'))
		r = refuse_at(splitter, "':'");
	if (r == 0) {
		put(splitter, '=');
		r = copy_json_value(splitter);
	}
	if (r == 0)
		put(splitter, '\0');
	return r;
}

static int split_json(struct splitter *splitter)
{
	int r = 0;

	splitter->from++;
	if (!accept(splitter, '}')) {
		do
			r = copy_member(splitter);
		while (r == 0 && accept(splitter, ','));
		if (r == 0 && !accept(splitter, '}'))
			r = refuse_at(splitter, "',' or '}'");
	}
	skip_blanks(splitter);
	return r == 0 && *splitter->from ? refuse_at(splitter, "the end of the line") : r;
}

int emit_line_split(char *line, size_t length, const char **assignments, size_t most, size_t *ret_n, struct text *why)
{
	struct splitter splitter = { .from = line, .to = line, .assignment = assignments, .most = most, .why = why };
	int r;

	if (memchr(line, '\0', length))
		return refuse(&splitter, "there is a NUL in it");
	skip_blanks(&splitter);
	r = *splitter.from == '{' ? split_json(&splitter) : split_assignments(&splitter);
	if (r == 0)
		*ret_n = splitter.n;
	return r;
}
