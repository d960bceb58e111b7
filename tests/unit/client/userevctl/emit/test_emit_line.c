/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/emit/emit.h"

#include <stdio.h>

#include "tests/suite.h"

enum { MOST = 8, TEXT_MAX = 65536 };

static char sentence[WIRE_SENTENCE_MAX + 1];

/* In memory of exactly that size, so that the sanitizers find an access beyond it. */
static int split(const char *line, size_t length, char **ret_copy, const char **assignments, size_t *ret_n)
{
	struct text why = text_make(sentence, sizeof(sentence));

	*ret_copy = malloc(length + 1);
	memcpy(*ret_copy, line, length);
	(*ret_copy)[length] = '\0';
	return emit_line_split(*ret_copy, length, assignments, MOST, ret_n, &why);
}

/* The assignments of the line, each in brackets. */
static void expect(const char *line, const char *expected)
{
	_cleanup_(freep) char *copy = NULL;
	const char *assignments[MOST];
	char all[512] = "";
	struct text text = text_make(all, sizeof(all));
	size_t n = 0;

	ck_assert_msg(split(line, strlen(line), &copy, assignments, &n) == 0, "%s: %s", line, sentence);
	for (size_t i = 0; i < n; i++)
		text_printf(&text, "<%s>", assignments[i]);
	ck_assert_str_eq(all, expected);
}

static void expect_refused(const char *line, const char *why)
{
	_cleanup_(freep) char *copy = NULL;
	const char *assignments[MOST];
	size_t n = 12345;

	ck_assert_int_eq(split(line, strlen(line), &copy, assignments, &n), REFUSAL_BAD_DESCRIPTION);
	ck_assert_msg(strncmp(sentence, why, strlen(why)) == 0, "%s: %s", line, sentence);
	ck_assert_uint_eq(n, 12345);
}

TEST(blanks_separate_assignments)
{
	expect("a=1 b=2", "<a=1><b=2>");
	expect(" \ta=1\t \tb=2 \r", "<a=1><b=2>");
	expect("a=", "<a=>");
	expect("a", "<a>");
	expect("a=b=c", "<a=b=c>");
	expect("", "");
	expect(" ", "");
}

TEST(double_quotes_enclose_a_value)
{
	expect("a=\"x y\" b=\"\"", "<a=x y><b=>");
	expect("a=x\"y z=1", "<a=x\"y><z=1>");
	expect("a=x\\ny", "<a=x\\ny>");
	expect_refused("a=\"x", "a double quote is not closed");
	expect_refused("a=\"x\"y", "a blank is missing (at 'y')");
}

TEST(a_character_in_single_quotes_may_be_a_blank)
{
	expect("a=' ' b='x' c='''", "<a=' '><b='x'><c='''>");
	expect("a='", "<a='>");
	expect("a='x", "<a='x>");
	expect("a=it's b=1", "<a=it's><b=1>");
}

TEST(escapes_are_replaced)
{
	expect("a=\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "<a=\"\\/\b\f\n\r\t>");
	expect("a=\"\\x41\\xfF\"", "<a=A\xff>");
	expect("a=\"\\u0041\\u00e9\\u20aC\"", "<a=A\u00e9\u20ac>");
	expect("a=\"\\ud834\\udd1e\"", "<a=\U0001d11e>");
	for (const char *const *escape =
		     (const char *const[]){ "", "q\"", "x4\"", "x", "u004\"", "ud834\"", "ud834\\u0041\"", "ud834\\u\"",
					    "udd1e\"", "x00\"", "u0000\"", NULL };
	     *escape; escape++) {
		char line[64];

		snprintf(line, sizeof(line), "a=\"\\%s", *escape);
		expect_refused(line,
			       "a backslash stands before \", \\, /, b, f, n, r, t, xNN or uNNNN, but not for a NUL");
	}
}

TEST(an_object_of_json_has_the_same_result)
{
	expect("{\"a\":1,\"b\":\"x y\",\"c\":[1,-2]}", "<a=1><b=x y><c=[1,-2]>");
	expect(" { \"a\" : -1 , \"b\" : [ 1 , 2 ] , \"c\" : [ ] } ", "<a=-1><b=[1,2]><c=[]>");
	expect("{}", "");
	expect("{\"a\":0}", "<a=0>");
	expect("{\"\\u0061\":\"\\u0062\"}", "<a=b>");
}

TEST(malformed_json_is_refused_with_its_place)
{
	static const char *const cases[][2] = {
		{ "{", "a field's name in double quotes is missing (at '')" },
		{ "{a:1}", "a field's name in double quotes is missing (at 'a:1}')" },
		{ "{\"a\"1}", "':' is missing (at '1}')" },
		{ "{\"a\":1", "',' or '}' is missing (at '')" },
		{ "{\"a\":1,}", "a field's name in double quotes is missing (at '}')" },
		{ "{\"a\":1}b", "the end of the line is missing (at 'b')" },
		{ "{\"a\":[1}", "']' is missing (at '}')" },
		{ "{\"a\":1.5}", "',' or '}' is missing (at '.5}')" },
		{ "{\"a\":1e3}", "',' or '}' is missing (at 'e3}')" },
		{ "{\"a=b\":1}", "no field's name has a '='" },
		{ "{\"a\":010}", "a whole number, a text or an array of whole numbers is missing (at '010}')" },
		{ "{\"a\":[1,-010]}", "a whole number, a text or an array of whole numbers is missing (at '-010]}')" },
		{ "{\"a\":true}", "a whole number, a text or an array of whole numbers is missing (at 'true}')" },
		{ "{\"a\":null}", "a whole number, a text or an array of whole numbers is missing (at 'null}')" },
		{ "{\"a\":{}}", "a whole number, a text or an array of whole numbers is missing (at '{}}')" },
		{ "{\"a\":-}", "a whole number, a text or an array of whole numbers is missing (at '-}')" },
		{ "{\"a\":[,]}", "a whole number, a text or an array of whole numbers is missing (at ',]}')" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_refused(cases[i][0], cases[i][1]);
}

TEST(too_many_fields_are_refused)
{
	expect("a b c d e f g h", "<a><b><c><d><e><f><g><h>");
	expect_refused("a b c d e f g h i", "there are more fields than an event can have");
	expect_refused("{\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1}",
		       "there are more fields than an event can have");
}

TEST(a_nul_in_a_line_is_refused)
{
	_cleanup_(freep) char *copy = NULL;
	const char *assignments[MOST];
	size_t n;

	ck_assert_int_eq(split("a=1\0b=2", 7, &copy, assignments, &n), REFUSAL_BAD_DESCRIPTION);
	ck_assert_msg(strstr(sentence, "there is a NUL in it"), "%s", sentence);
}

static uint64_t seed = 0x5eed;

static unsigned chance(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

struct again {
	uint8_t payload[WIRE_PAYLOAD_MAX];
	size_t size;
	char text[TEXT_MAX];
	char json[TEXT_MAX];
};

static void show(const struct description *description, struct again *shown)
{
	struct text text = text_make(shown->text, sizeof(shown->text)),
		    json = text_make(shown->json, sizeof(shown->json));

	record_to_text(description, shown->payload, shown->size, &text);
	record_to_json(description, shown->payload, shown->size, &json);
}

static void rebuild(const struct description *description, const char *line, struct again *ret)
{
	_cleanup_(freep) char *copy = NULL;
	const char *assignments[MOST];
	struct text why = text_make(sentence, sizeof(sentence));
	size_t n = 0;

	ck_assert_msg(split(line, strlen(line), &copy, assignments, &n) == 0, "%s: %s", line, sentence);
	ck_assert_msg(record_build(description, assignments, n, ret->payload, sizeof(ret->payload), &ret->size, &why) ==
			      0,
		      "%s: %s", line, sentence);
	show(description, ret);
}

/* A record with random values. */
static void make_up(const struct description *description, struct again *ret)
{
	char number[64], word[64], text[64], list[64];
	const char *assignments[] = { number, word, text, list };
	struct text why = text_make(sentence, sizeof(sentence));
	size_t length = chance(40);

	snprintf(number, sizeof(number), "c=%d", (int)chance(256) - 128);
	snprintf(word, sizeof(word), "w=%.*s", (int)chance(9), "a \"b\\c'd=");
	snprintf(list, sizeof(list), "l=[%u,%u]", chance(65536), chance(65536));
	memcpy(text, "t=", 2);
	for (size_t i = 0; i < length; i++)
		text[2 + i] = (char)(1 + chance(255));
	text[2 + length] = '\0';
	ck_assert_msg(record_build(description, assignments, ARRAY_SIZE(assignments), ret->payload,
				   sizeof(ret->payload), &ret->size, &why) == 0,
		      "%s", sentence);
	show(description, ret);
}

TEST(output_of_tail_can_be_emitted_again)
{
	static struct again made, same;
	static const char text[] = "e char c; char[8] w; __rel_loc char[] t; __data_loc u16[] l; struct s s 2; s64 n";
	struct description description;
	struct text why = text_make(sentence, sizeof(sentence));

	ck_assert_int_eq(description_parse(text, strlen(text), &description, &why), 0);
	for (int i = 0; i < 20000; i++) {
		make_up(&description, &made);
		rebuild(&description, made.text, &same);
		ck_assert_str_eq(same.text, made.text);
		rebuild(&description, made.json, &same);
		ck_assert_str_eq(same.json, made.json);
	}
}

/* Each line is refused or split, without an access outside of it (the sanitizers would find one). */
TEST(random_lines_stay_within_their_buffer)
{
	static const char letters[] = "ab= \t\"\"\\\\xu01d8'{}[]:,-.";
	unsigned good = 0;

	for (int round = 0; round < 200000; round++) {
		_cleanup_(freep) char *copy = NULL;
		const char *assignments[MOST];
		size_t n = 0, length = chance(24);
		char line[24];

		for (size_t i = 0; i < length; i++)
			line[i] = letters[chance(sizeof(letters) - 1)];
		if (chance(2) && length > 0)
			line[0] = '{';
		if (split(line, length, &copy, assignments, &n) == 0)
			good++;
		for (size_t i = 0; i < n; i++)
			ck_assert_uint_le(strlen(assignments[i]), length);
	}
	ck_assert_uint_gt(good, 100);
}
