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

#include <ctype.h>

#include "client/userevctl/emit/emit.h"
#include "client/userevctl/escape.h"

struct splitter {
	const char *from; /* a NUL ends the line */
	char *to;	  /* never behind `from` */
	const char **assignment;
	size_t n;
	size_t most;
	bool refused;
	struct text *why;
};

/* The first error counts; the rest of the line is skipped, so every loop ends. */
static void refuse_line(struct splitter *splitter, const char *sentence)
{
	if (!splitter->refused) {
		text_printf(splitter->why, "%s (at '", sentence);
		text_excerpt(splitter->why, splitter->from, strlen(splitter->from));
		text_printf(splitter->why, "')");
	}
	splitter->refused = true;
	splitter->from = "";
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
	if (!splitter->refused)
		*splitter->to++ = (char)byte;
}

static void copy_byte(struct splitter *splitter)
{
	*splitter->to++ = *splitter->from++;
}

static void begin_assignment(struct splitter *splitter)
{
	if (splitter->n == splitter->most)
		refuse_line(splitter, "there are more fields than an event can have");
	else
		splitter->assignment[splitter->n++] = splitter->to;
}

/* --- text in double quotes --- */

static void copy_quoted(struct splitter *splitter)
{
	size_t n;

	splitter->from++;
	while (*splitter->from && *splitter->from != '"') {
		if (*splitter->from != '\\') {
			copy_byte(splitter);
			continue;
		}
		splitter->from++;
		n = escape_take(&splitter->from, splitter->from + strlen(splitter->from), splitter->to);
		if (n == 0)
			refuse_line(
				splitter,
				"a backslash stands before \", \\, /, b, f, n, r, t, xNN or uNNNN, but not for a NUL");
		splitter->to += n;
	}
	if (*splitter->from)
		splitter->from++;
	else
		refuse_line(splitter, "a double quote is not closed");
}

/* --- FIELD=VALUE, as on the command line --- */

static void split_assignments(struct splitter *splitter)
{
	for (skip_blanks(splitter); *splitter->from; skip_blanks(splitter)) {
		begin_assignment(splitter);
		while (*splitter->from && !is_line_blank(*splitter->from) && *splitter->from != '=')
			copy_byte(splitter);
		if (*splitter->from == '=')
			copy_byte(splitter);
		if (*splitter->from == '"') {
			copy_quoted(splitter);
			if (*splitter->from && !is_line_blank(*splitter->from))
				refuse_line(splitter, "a blank is missing");
		}
		/* The blank in ' ' separates nothing. */
		if (splitter->from[0] == '\'' && splitter->from[1] && splitter->from[2] == '\'')
			for (int i = 0; i < 3; i++)
				copy_byte(splitter);
		while (*splitter->from && !is_line_blank(*splitter->from))
			copy_byte(splitter);
		/* First past the blank: the NUL may take its place. */
		splitter->from += *splitter->from != '\0';
		put_byte(splitter, '\0');
	}
}

/* --- JSON --- */

/* A whole number of JSON. (On the command line a leading 0 makes it octal.) */
static void copy_number(struct splitter *splitter)
{
	const char *digits;

	skip_blanks(splitter);
	digits = splitter->from + (*splitter->from == '-');
	if (!isdigit((unsigned char)digits[0]) || (digits[0] == '0' && isdigit((unsigned char)digits[1])))
		refuse_line(splitter, "a whole number, a text or an array of whole numbers is missing");
	while (*splitter->from == '-' || isdigit((unsigned char)*splitter->from))
		copy_byte(splitter);
}

static void copy_array(struct splitter *splitter)
{
	copy_byte(splitter);
	if (!accept_character(splitter, ']')) {
		copy_number(splitter);
		while (accept_character(splitter, ',')) {
			put_byte(splitter, ',');
			copy_number(splitter);
		}
		if (!accept_character(splitter, ']'))
			refuse_line(splitter, "']' is missing");
	}
	put_byte(splitter, ']');
}

static void copy_member(struct splitter *splitter)
{
	const char *key = splitter->to;

	begin_assignment(splitter);
	skip_blanks(splitter);
	if (*splitter->from == '"')
		copy_quoted(splitter);
	else
		refuse_line(splitter, "a field's name in double quotes is missing");
	if (memchr(key, '=', (size_t)(splitter->to - key)))
		refuse_line(splitter, "no field's name has a '='");
	if (!accept_character(splitter, ':'))
		refuse_line(splitter, "':' is missing");
	put_byte(splitter, '=');
	skip_blanks(splitter);
	if (*splitter->from == '"')
		copy_quoted(splitter);
	else if (*splitter->from == '[')
		copy_array(splitter);
	else
		copy_number(splitter);
	put_byte(splitter, '\0');
}

static void split_json(struct splitter *splitter)
{
	splitter->from++;
	if (!accept_character(splitter, '}')) {
		do
			copy_member(splitter);
		while (accept_character(splitter, ','));
		if (!accept_character(splitter, '}'))
			refuse_line(splitter, "',' or '}' is missing");
	}
	skip_blanks(splitter);
	if (*splitter->from)
		refuse_line(splitter, "the end of the line is missing");
}

int emit_line_split(char *line, size_t length, const char **assignments, size_t most, size_t *ret_n, struct text *why)
{
	struct splitter splitter = { .from = line, .to = line, .assignment = assignments, .most = most, .why = why };

	if (memchr(line, '\0', length))
		refuse_line(&splitter, "there is a NUL in it");
	skip_blanks(&splitter);
	(*splitter.from == '{' ? split_json : split_assignments)(&splitter);
	if (splitter.refused)
		return REFUSAL_BAD_DESCRIPTION;
	*ret_n = splitter.n;
	return 0;
}
