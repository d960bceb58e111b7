/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A line of `emit --stdin`, in one of two notations:
 *
 *	status=200 path="/a \"b\"\x0a" mark='x' list=[1,-2]
 *	{"status":200,"path":"/a \"b\"\n","mark":120,"list":[1,-2]}
 *
 * Both are output of tail, which can be emitted again. The result is never longer than the line, so the line is rewritten in
 * place, and nothing is allocated.
 *
 * Why not json-c: it turns 18446744073709551616 into 18446744073709551615 without an error, takes the last of two members of one
 * name, and replaces half of a surrogate pair, so that a record would differ from its line.
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

static int splitter_refuse(struct splitter *splitter, const char *sentence)
{
	text_printf(splitter->why, "%s", sentence);
	return REFUSAL_BAD_DESCRIPTION;
}

static int splitter_refuse_at(struct splitter *splitter, const char *wanted)
{
	text_printf(splitter->why, "%s is missing before '", wanted);
	text_excerpt(splitter->why, splitter->from, strlen(splitter->from));
	text_put(splitter->why, "'", 1);
	return REFUSAL_BAD_DESCRIPTION;
}

static bool is_line_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct splitter *splitter)
{
	while (is_line_blank(*splitter->from))
		splitter->from++;
}

/* The next character of the line, if it is this one, after blanks. */
static bool accept_character(struct splitter *splitter, char c)
{
	skip_blanks(splitter);
	if (*splitter->from != c)
		return false;
	splitter->from++;
	return true;
}

static void put_byte(struct splitter *splitter, int byte)
{
	*splitter->to++ = (char)byte;
}

static void copy_byte(struct splitter *splitter)
{
	*splitter->to++ = *splitter->from++;
}

static int begin_assignment(struct splitter *splitter)
{
	if (splitter->n == splitter->most)
		return splitter_refuse(splitter, "there are more fields than an event can have");
	splitter->assignment[splitter->n++] = splitter->to;
	return 0;
}

/* --- text in double quotes --- */

/* A number of that many hexadecimal digits; -1: there are not so many. */
static int hex_number(const char *from, size_t digits)
{
	char number[5] = "";

	if (strspn(from, "0123456789abcdefABCDEF") < digits)
		return -1;
	memcpy(number, from, digits);
	return (int)strtol(number, NULL, 16);
}

static void put_utf8(struct splitter *splitter, int code)
{
	int continuations = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
	static const int first[] = { 0, 0xc0, 0xe0, 0xf0 };

	put_byte(splitter, first[continuations] | code >> 6 * continuations);
	while (continuations-- > 0)
		put_byte(splitter, 0x80 | (code >> 6 * continuations & 0x3f));
}

/* \uNNNN, of which two form one character beyond U+FFFF. */
static int copy_unicode(struct splitter *splitter)
{
	int code = hex_number(splitter->from, 4), low;

	if (code < 0)
		return splitter_refuse(splitter, "\\u needs four hexadecimal digits");
	splitter->from += 4;
	if (code >= 0xd800 && code < 0xdc00 && splitter->from[0] == '\\' && splitter->from[1] == 'u') {
		low = hex_number(splitter->from + 2, 4);
		if (low >= 0xdc00 && low < 0xe000) {
			code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
			splitter->from += 6;
		}
	}
	if (code == 0)
		return splitter_refuse(splitter, "a text cannot contain a NUL");
	if (code >= 0xd800 && code < 0xe000)
		return splitter_refuse(splitter, "\\u is half of a character");
	put_utf8(splitter, code);
	return 0;
}

static int copy_escape(struct splitter *splitter)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char letter = *++splitter->from;
	int byte;

	if (letter == '\0')
		return splitter_refuse(splitter, "the line ends in a backslash");
	splitter->from++;
	if (letter == 'u')
		return copy_unicode(splitter);
	if (letter == 'x') {
		byte = hex_number(splitter->from, 2);
		if (byte < 0)
			return splitter_refuse(splitter, "\\x needs two hexadecimal digits");
		if (byte == 0)
			return splitter_refuse(splitter, "a text cannot contain a NUL");
		splitter->from += 2;
		put_byte(splitter, byte);
		return 0;
	}
	found = strchr(letters, letter);
	if (!found)
		return splitter_refuse(splitter, "a backslash stands before \", \\, /, b, f, n, r, t, xNN or uNNNN");
	put_byte(splitter, meant[found - letters]);
	return 0;
}

static int copy_quoted(struct splitter *splitter)
{
	int r = 0;

	splitter->from++;
	while (r == 0 && *splitter->from != '"') {
		if (*splitter->from == '\0')
			return splitter_refuse(splitter, "a double quote is not closed");
		if (*splitter->from == '\\')
			r = copy_escape(splitter);
		else
			copy_byte(splitter);
	}
	if (r == 0)
		splitter->from++;
	return r;
}

/* --- FIELD=VALUE, as on the command line --- */

static int copy_assignment(struct splitter *splitter)
{
	int r = begin_assignment(splitter);

	while (r == 0 && *splitter->from && !is_line_blank(*splitter->from) && *splitter->from != '=')
		copy_byte(splitter);
	if (r != 0 || *splitter->from != '=')
		return r;
	copy_byte(splitter);
	if (*splitter->from == '"') {
		r = copy_quoted(splitter);
		return r == 0 && *splitter->from && !is_line_blank(*splitter->from)
			       ? splitter_refuse_at(splitter, "a blank")
			       : r;
	}
	/* The blank in ' ' separates nothing. */
	if (splitter->from[0] == '\'' && splitter->from[1] && splitter->from[2] == '\'')
		for (int i = 0; i < 3; i++)
			copy_byte(splitter);
	while (*splitter->from && !is_line_blank(*splitter->from))
		copy_byte(splitter);
	return 0;
}

static int split_assignments(struct splitter *splitter)
{
	int r = 0;

	for (skip_blanks(splitter); r == 0 && *splitter->from; skip_blanks(splitter)) {
		r = copy_assignment(splitter);
		if (r != 0)
			break;
		/* First past the blank: the NUL may take its place. */
		splitter->from += *splitter->from != '\0';
		put_byte(splitter, '\0');
	}
	return r;
}

/* --- JSON --- */

/* A whole number of JSON. (On the command line a leading 0 makes it octal.) */
static int copy_number(struct splitter *splitter)
{
	const char *digits;

	skip_blanks(splitter);
	digits = splitter->from + (*splitter->from == '-');
	if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'))
		return splitter_refuse_at(splitter, "a whole number, a text or an array of whole numbers");
	while (splitter->from < digits || (*splitter->from >= '0' && *splitter->from <= '9'))
		copy_byte(splitter);
	return strchr(".eE", *splitter->from) && *splitter->from
		       ? splitter_refuse_at(splitter, "the end of a whole number")
		       : 0;
}

static int copy_array(struct splitter *splitter)
{
	int r = 0;

	copy_byte(splitter);
	if (!accept_character(splitter, ']')) {
		r = copy_number(splitter);
		while (r == 0 && accept_character(splitter, ',')) {
			put_byte(splitter, ',');
			r = copy_number(splitter);
		}
		if (r == 0 && !accept_character(splitter, ']'))
			r = splitter_refuse_at(splitter, "']'");
	}
	put_byte(splitter, ']');
	return r;
}

static int copy_member(struct splitter *splitter)
{
	const char *key = splitter->to;
	int r = begin_assignment(splitter);

	skip_blanks(splitter);
	if (r == 0 && *splitter->from != '"')
		r = splitter_refuse_at(splitter, "a field's name in double quotes");
	if (r == 0)
		r = copy_quoted(splitter);
	if (r == 0 && memchr(key, '=', (size_t)(splitter->to - key)))
		r = splitter_refuse(splitter, "no field's name has a '='");
	if (r == 0 && !accept_character(splitter, ':'))
		r = splitter_refuse_at(splitter, "':'");
	if (r != 0)
		return r;
	put_byte(splitter, '=');
	skip_blanks(splitter);
	if (*splitter->from == '"')
		r = copy_quoted(splitter);
	else
		r = *splitter->from == '[' ? copy_array(splitter) : copy_number(splitter);
	put_byte(splitter, '\0');
	return r;
}

static int split_json(struct splitter *splitter)
{
	int r = 0;

	splitter->from++;
	if (!accept_character(splitter, '}')) {
		do
			r = copy_member(splitter);
		while (r == 0 && accept_character(splitter, ','));
		if (r == 0 && !accept_character(splitter, '}'))
			r = splitter_refuse_at(splitter, "',' or '}'");
	}
	skip_blanks(splitter);
	return r == 0 && *splitter->from ? splitter_refuse_at(splitter, "the end of the line") : r;
}

int emit_line_split(char *line, size_t length, const char **assignments, size_t most, size_t *ret_n, struct text *why)
{
	struct splitter splitter = { .from = line, .to = line, .assignment = assignments, .most = most, .why = why };
	int r;

	if (memchr(line, '\0', length))
		return splitter_refuse(&splitter, "there is a NUL in it");
	skip_blanks(&splitter);
	r = *splitter.from == '{' ? split_json(&splitter) : split_assignments(&splitter);
	if (r == 0)
		*ret_n = splitter.n;
	return r;
}
