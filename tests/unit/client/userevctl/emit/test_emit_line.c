/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/emit/emit.h"

#include <stdio.h>

#include "tests/suite.h"

enum { MOST = 8, TEXT_MAX = 512 };

static char sentence[WIRE_SENTENCE_MAX + 1];

/* In memory of exactly that size, so that the sanitizers find an access beyond it. Freed by the next call. */
static int split(const char *line, size_t length, const char **assignments, size_t *ret_n)
{
	static char *copy;
	struct text why = text_make(sentence, sizeof(sentence));

	free(copy);
	copy = malloc(length + 1);
	memcpy(copy, line, length);
	copy[length] = '\0';
	return emit_line_split(copy, length, assignments, MOST, ret_n, &why);
}

/* Lines, and their assignments in brackets, or the beginning of the sentence. */
TEST(lines_are_split_into_assignments)
{
#define ESCAPES "a backslash stands before \", \\, /, b, f, n, r, t, xNN or uNNNN, but not for a NUL"
#define A_NAME	"a field's name in double quotes is missing "
#define A_VALUE "a whole number, a text or an array of whole numbers is missing "
#define MANY	"there are more fields than an event can have"
	static const char *const rows[][2] = {
		{ "a=1 b=2", "<a=1><b=2>" },
		{ " \ta=1\t \tb=2 \r", "<a=1><b=2>" },
		{ "a=", "<a=>" },
		{ "a", "<a>" },
		{ "a=b=c", "<a=b=c>" },
		{ "", "" },
		{ " ", "" },
		{ "a b c d e f g h", "<a><b><c><d><e><f><g><h>" },
		{ "a b c d e f g h i", MANY },
		/* Double quotes enclose a value. */
		{ "a=\"x y\" b=\"\"", "<a=x y><b=>" },
		{ "a=x\"y z=1", "<a=x\"y><z=1>" },
		{ "a=x\\ny", "<a=x\\ny>" },
		{ "a=\"x", "a double quote is not closed" },
		{ "a=\"x\"y", "a blank is missing (at 'y')" },
		/* A character in single quotes may be a blank. */
		{ "a=' ' b='x' c='''", "<a=' '><b='x'><c='''>" },
		{ "a='", "<a='>" },
		{ "a='x", "<a='x>" },
		{ "a=it's b=1", "<a=it's><b=1>" },
		/* Escapes. */
		{ "a=\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "<a=\"\\/\b\f\n\r\t>" },
		{ "a=\"\\x41\\xfF\"", "<a=A\xff>" },
		{ "a=\"\\u0041\\u00e9\\u20aC\"", "<a=A\u00e9\u20ac>" },
		{ "a=\"\\ud834\\udd1e\"", "<a=\U0001d11e>" },
		{ "a=\"\\", ESCAPES },
		{ "a=\"\\q\"", ESCAPES },
		{ "a=\"\\x4\"", ESCAPES },
		{ "a=\"\\x", ESCAPES },
		{ "a=\"\\u004\"", ESCAPES },
		{ "a=\"\\ud834\"", ESCAPES },
		{ "a=\"\\ud834\\u0041\"", ESCAPES },
		{ "a=\"\\ud834\\u\"", ESCAPES },
		{ "a=\"\\udd1e\"", ESCAPES },
		{ "a=\"\\x00\"", ESCAPES },
		{ "a=\"\\u0000\"", ESCAPES },
		/* JSON. */
		{ "{\"a\":1,\"b\":\"x y\",\"c\":[1,-2]}", "<a=1><b=x y><c=[1,-2]>" },
		{ " { \"a\" : -1 , \"b\" : [ 1 , 2 ] , \"c\" : [ ] } ", "<a=-1><b=[1,2]><c=[]>" },
		{ "{}", "" },
		{ "{\"a\":0}", "<a=0>" },
		{ "{\"\\u0061\":\"\\u0062\"}", "<a=b>" },
		{ "{", A_NAME "(at '')" },
		{ "{a:1}", A_NAME "(at 'a:1}')" },
		{ "{\"a\"1}", "':' is missing (at '1}')" },
		{ "{\"a\":1", "',' or '}' is missing (at '')" },
		{ "{\"a\":1,}", A_NAME "(at '}')" },
		{ "{\"a\":1}b", "the end of the line is missing (at 'b')" },
		{ "{\"a\":[1}", "']' is missing (at '}')" },
		{ "{\"a\":1.5}", "',' or '}' is missing (at '.5}')" },
		{ "{\"a\":1e3}", "',' or '}' is missing (at 'e3}')" },
		{ "{\"a=b\":1}", "no field's name has a '='" },
		{ "{\"a\":010}", A_VALUE "(at '010}')" },
		{ "{\"a\":[1,-010]}", A_VALUE "(at '-010]}')" },
		{ "{\"a\":true}", A_VALUE "(at 'true}')" },
		{ "{\"a\":{}}", A_VALUE "(at '{}}')" },
		{ "{\"a\":-}", A_VALUE "(at '-}')" },
		{ "{\"a\":[,]}", A_VALUE "(at ',]}')" },
		{ "{\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1}", MANY },
	};
	const char *assignments[MOST];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *line = rows[i][0], *expected = rows[i][1];
		const bool good = *expected == '<' || *expected == '\0';
		char all[512] = "";
		struct text text = text_make(all, sizeof(all));
		size_t n;

		/* A sanitizer finds an access behind the end of a line that is cut. */
		for (size_t length = 0; length < strlen(line); length++)
			split(line, length, assignments, &n);
		n = 0;
		ck_assert_msg(split(line, strlen(line), assignments, &n) == (good ? 0 : REFUSAL_BAD_DESCRIPTION),
			      "%s: %s", line, sentence);
		for (size_t j = 0; j < n; j++)
			text_printf(&text, "<%s>", assignments[j]);
		ck_assert_str_eq(all, good ? expected : "");
		ck_assert_msg(good || strncmp(sentence, expected, strlen(expected)) == 0, "%s: %s", line, sentence);
	}
}

TEST(a_nul_in_a_line_is_refused)
{
	const char *assignments[MOST];
	size_t n;

	ck_assert_int_eq(split("a=1\0b=2", 7, assignments, &n), REFUSAL_BAD_DESCRIPTION);
	ck_assert_msg(strstr(sentence, "there is a NUL in it"), "%s", sentence);
}

static struct description description;

/* The record of these assignments, as tail shows it. */
static void show_built(const char *const *assignments, size_t n, bool json, char *ret)
{
	uint8_t payload[256];
	struct text shown = text_make(ret, TEXT_MAX), why = text_make(sentence, sizeof(sentence));
	size_t size;

	ck_assert_msg(record_build(&description, assignments, n, payload, sizeof(payload), &size, &why) == 0, "%s",
		      sentence);
	(json ? record_to_json : record_to_text)(&description, payload, size, &shown);
	ck_assert(!shown.cut);
}

/* Each byte but NUL, as a number and in text, before bytes that make it UTF-8 or not. */
TEST(output_of_tail_can_be_emitted_again)
{
	static const char fields[] = "e char c; char[8] w; __rel_loc char[] t; __data_loc u16[] l; struct s s 2; s64 n";
	static const char seconds[] = "\"\\\n='x\x80\xa4\xff";
	char number[8], word[16], text[8], list[24], made[TEXT_MAX], same[TEXT_MAX];
	const char *assignments[] = { number, word, text, list }, *again[MOST];
	struct text why = text_make(sentence, sizeof(sentence));

	ck_assert_int_eq(description_parse(fields, strlen(fields), &description, &why), 0);
	for (unsigned i = 0; i < 2 * 255 * strlen(seconds); i++) {
		const unsigned first = 1 + i / 2 % 255, second = i / 2 / 255;
		size_t n;

		snprintf(number, sizeof(number), "c=%d", (int)first - 128);
		snprintf(word, sizeof(word), "w=%.*s", (int)second, "a \"b\\c'd=");
		snprintf(list, sizeof(list), "l=[%u,%u]", first * 257, second);
		snprintf(text, sizeof(text), "t=%c%cx", (char)first, seconds[second]);
		show_built(assignments, ARRAY_SIZE(assignments), i % 2, made);
		ck_assert_msg(split(made, strlen(made), again, &n) == 0, "%s: %s", made, sentence);
		show_built(again, n, i % 2, same);
		ck_assert_str_eq(same, made);
	}
}
