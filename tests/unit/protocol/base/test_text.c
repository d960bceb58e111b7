/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/base/text.h"

#include "tests/suite.h"

static char buffer[256];

static struct text fresh(size_t size)
{
	memset(buffer, '?', sizeof(buffer));
	return text_make(buffer, size);
}

#define S(literal) (literal), (sizeof(literal) - 1)

static const char *shown(void (*put)(struct text *, const char *, size_t), const char *from, size_t length)
{
	struct text text = fresh(sizeof(buffer));

	put(&text, from, length);
	ck_assert(!text.cut);
	ck_assert_uint_eq(text.length, strlen(buffer));
	return buffer;
}

static const char *safe(const char *from, size_t length)
{
	return shown(text_safe, from, length);
}

TEST(text_is_terminated_and_marked_as_cut)
{
	struct text text = fresh(5);

	text_put(&text, S("abcd"));
	ck_assert(!text.cut);
	text_put(&text, "", 0);
	text_put(&text, NULL, 0);
	ck_assert(!text.cut);
	text_put(&text, S("e"));
	ck_assert(text.cut);
	ck_assert_str_eq(buffer, "abcd");
	ck_assert_int_eq(buffer[5], '?');
}

TEST(a_buffer_of_one_byte_holds_the_empty_text)
{
	struct text text = fresh(1);

	text_printf(&text, "%s", "");
	ck_assert(!text.cut);
	text_safe(&text, S("\n"));
	ck_assert(text.cut);
	ck_assert_str_eq(buffer, "");
	ck_assert_int_eq(buffer[1], '?');
}

TEST(printf_fills_the_buffer)
{
	struct text text = fresh(8);

	text_printf(&text, "%d-%s", 12, "abcd");
	ck_assert(!text.cut);
	ck_assert_str_eq(buffer, "12-abcd");

	text = fresh(8);
	text_printf(&text, "%d-%s", 12, "abcde");
	ck_assert(text.cut);
	ck_assert_str_eq(buffer, "12-abcd");
	ck_assert_uint_eq(text.length, 7);
	ck_assert_int_eq(buffer[8], '?');
}

TEST(nothing_is_written_behind_a_cut)
{
	struct text text = fresh(4);

	text_safe(&text, S("ab\n")); /* the escape does not fit, one more byte would */
	ck_assert(text.cut);
	text_put(&text, S("c"));
	text_printf(&text, "d");
	text_safe(&text, S("e"));
	text_json_string(&text, S("f"));
	ck_assert_str_eq(buffer, "ab");
}

TEST(a_cut_never_leaves_half_a_character)
{
	for (size_t size = 1; size < 12; size++) {
		struct text put = fresh(size);
		char by_put[12];

		text_put(&put, S("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
		ck_assert_int_eq(put.cut, size < 10);
		ck_assert_uint_eq(put.length, size >= 10 ? 9 : size >= 6 ? 5 : size >= 3 ? 2 : 0);
		ck_assert_uint_eq(put.length, strlen(buffer));
		string_copy(by_put, sizeof(by_put), buffer);

		put = fresh(size);
		text_printf(&put, "%s", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
		ck_assert_str_eq(buffer, by_put);
		ck_assert_uint_eq(put.length, strlen(buffer));
	}
}

TEST(cut_keeps_bytes_that_are_not_utf8)
{
	struct text text = fresh(6);

	text_put(&text, S("\x80\x80\x80\x80\x80\x80\x80"));
	ck_assert(text.cut);
	ck_assert_uint_eq(text.length, 5);
}

#define REPLACED "\xef\xbf\xbd"

TEST(text_is_escaped_for_its_reader)
{
	static const struct {
		void (*put)(struct text *, const char *, size_t);
		const char *from;
		size_t length;
		const char *expected;
	} rows[] = {
		{ text_safe, S(""), "" },
		{ text_safe, S("plain ~ \"quoted\" \\ back"), "plain ~ \"quoted\" \\ back" },
		{ text_safe, S("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"),
		  "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf" },
		{ text_safe, S("\x1b[2J\a\0\n\x7f"), "\\x1b[2J\\x07\\x00\\x0a\\x7f" },
		{ text_safe, S("\xc2\x9b!2J"), "\\xc2\\x9b!2J" }, /* U+009B is ESC [ in one */
		{ text_safe, S("\xc2\xa0"), "\xc2\xa0" },
		{ text_safe, S("\xe2\x80\xae"), "\\xe2\\x80\\xae" }, /* right-to-left override */
		{ text_safe, S("\xe2\x81\xa6"), "\\xe2\\x81\\xa6" }, /* isolate */
		{ text_safe, S("\xe2\x80\xa8"), "\\xe2\\x80\\xa8" }, /* line separator */
		{ text_safe, S("\xe2\x80\xaf"), "\xe2\x80\xaf" },
		{ text_safe, "\xe2\x82\xac", 2, "\\xe2\\x82" }, /* is not read beyond the length */
		{ text_quoted, S("a\"b\\\n"), "\"a\\\"b\\\\\\x0a\"" },
		{ text_json_string, S(""), "\"\"" },
		{ text_json_string, S("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"" },
		{ text_json_string, S("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
		{ text_json_string, S("\0\x01\x1f"), "\"\\u0000\\u0001\\u001f\"" },
		{ text_json_string, S("\xe2\x82\xac"), "\"\xe2\x82\xac\"" },
		{ text_json_string, "\xe2\x82\xac", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ text_json_string, S("\x1b\x7f\xc2\x9b\xe2\x80\xae"), "\"\\u001b\\u007f\\u009b\\u202e\"" },
		/* JSON writes characters beyond U+FFFF in two halves. */
		{ text_json_string, S("\xe2\x80\x8b\xf3\xa0\x80\x81"), "\"\\u200b\\udb40\\udc01\"" },
		{ text_json_string, S("a\xff\xed\xa0\x80z"), "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"" },
		/* Labels of different texts differ. */
		{ text_label, S(""), "" },
		{ text_label, S("/system.slice/a b{c}=#,"), "/system.slice/a b{c}=#," },
		{ text_label, S("a\"b"), "a\\\"b" },
		{ text_label, S("getty\\x2d1"), "getty\\\\x2d1" },
		{ text_label, S("\\n"), "\\\\n" },
		{ text_label, S("\n\\\""), "\\n\\\\\\\"" },
		{ text_label, S("\xc3\xa4\xe2\x82\xac"), "\xc3\xa4\xe2\x82\xac" },
		{ text_label, S("\xff\xc3"), REPLACED "ff" REPLACED "c3" },
		{ text_label, S("\x1b[m\r\t\0"), REPLACED "1b[m" REPLACED "0d" REPLACED "09" REPLACED "00" },
		{ text_label, S("\xe2\x80\xae"), REPLACED "e2" REPLACED "80" REPLACED "ae" },
		{ text_label, S("\xff"), REPLACED "ff" },
		{ text_label, S(REPLACED "ff"), REPLACED "ef" REPLACED "bf" REPLACED "bdff" },
		{ text_label, S("\\xff"), "\\\\xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ck_assert_str_eq(shown(rows[i].put, rows[i].from, rows[i].length), rows[i].expected);
}

/* The first and the last of each range of invisible characters, and their visible neighbours. */
TEST(safe_text_escapes_invisible_characters)
{
	static const char *const unseen[] = {
		"\xc2\xad",	"\xcd\x8f",	    "\xd8\x9c",		"\xe1\x85\x9f",	    "\xe1\x85\xa0",
		"\xe1\x9e\xb4", "\xe1\x9e\xb5",	    "\xe1\xa0\x8b",	"\xe1\xa0\x8f",	    "\xe2\x80\x8b",
		"\xe2\x80\x8f", "\xe2\x81\xa0",	    "\xe2\x81\xa4",	"\xe2\x81\xaf",	    "\xe3\x85\xa4",
		"\xef\xb8\x80", "\xef\xb8\x8f",	    "\xef\xbb\xbf",	"\xef\xbe\xa0",	    "\xef\xbf\xb0",
		"\xef\xbf\xbb", "\xf0\x9b\xb2\xa0", "\xf0\x9d\x85\xba", "\xf3\xa0\x80\x80", "\xf3\xa0\xbf\xbf",
	};
	static const char *const seen[] = {
		"\xc2\xae",	"\xcd\x8e", "\xe1\x85\x9e", "\xe2\x80\x8a", "\xe2\x80\x90", "\xe2\x81\x9f",
		"\xe2\x81\xb0", "\xcc\x81", "\xef\xb8\x90", "\xef\xbb\xbc", "\xef\xbf\xbc", "\xf3\xa1\x80\x80",
	};

	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++)
		ck_assert_msg(safe(unseen[i], strlen(unseen[i]))[0] == '\\', "unseen %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		ck_assert_str_eq(safe(seen[i], strlen(seen[i])), seen[i]);
	ck_assert_str_eq(safe(S("web\xe2\x80\x8b")), "web\\xe2\\x80\\x8b");
}

static const struct {
	const char *bytes, *shown;
} not_utf8[] = {
	{ "\x80", "\\x80" },
	{ "\xbf", "\\xbf" },
	{ "\xc0\xaf", "\\xc0\\xaf" },				    /* overlong '/' */
	{ "\xc1\xbf", "\\xc1\\xbf" },				    /* overlong DEL */
	{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },			    /* overlong '/' */
	{ "\xe0\x9f\xbf", "\\xe0\\x9f\\xbf" },			    /* overlong U+07FF */
	{ "\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf" },		    /* overlong '/' */
	{ "\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf" },		    /* overlong U+FFFF */
	{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },			    /* first surrogate */
	{ "\xed\xbf\xbf", "\\xed\\xbf\\xbf" },			    /* last surrogate */
	{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },		    /* U+110000 */
	{ "\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80" },		    /* beyond */
	{ "\xff\xfe", "\\xff\\xfe" },				    /* never */
	{ "\xc3", "\\xc3" },					    /* ends too early */
	{ "\xe2\x82", "\\xe2\\x82" },				    /* ends too early */
	{ "\xf0\x9f\x98", "\\xf0\\x9f\\x98" },			    /* ends too early */
	{ "\xe2\x82x", "\\xe2\\x82x" },				    /* goes on wrong */
	{ "\xe2\x28\xa1", "\\xe2(\\xa1" },			    /* goes on wrong */
	{ "\xc3\xc3\xa4", "\\xc3\xc3\xa4" },			    /* only the first is wrong */
	{ "\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80" }, /* both neighbours of the surrogates are fine */
	{ "\xe0\xa0\x80", "\xe0\xa0\x80" },			    /* the first of three bytes */
	{ "\xc2\xa1", "\xc2\xa1" },				    /* the first of two that can be shown */
	{ "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },		    /* the first of four bytes */
};

TEST(invalid_utf8_is_shown_as_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_utf8); i++)
		ck_assert_str_eq(safe(not_utf8[i].bytes, strlen(not_utf8[i].bytes)), not_utf8[i].shown);
}

TEST(an_escape_is_written_whole_or_not_at_all)
{
	for (size_t size = 1; size <= 7; size++) {
		struct text text = fresh(size);

		text_json_string(&text, S("\x01"));
		ck_assert(text.cut);
		ck_assert_str_eq(buffer, size == 1 ? "" : "\"");
	}
	for (size_t size = 2; size <= 9; size++) {
		struct text text = fresh(size);

		text_safe(&text, S("\n\n"));
		ck_assert_int_eq(text.cut, size < 9);
		ck_assert_uint_eq(text.length, (size - 1) / 4 * 4);
	}
}

TEST(excerpt_is_short_and_safe)
{
#define FORTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	static const char *const rows[][2] = {
		{ FORTY, FORTY },
		{ FORTY "a", FORTY "..." },
		{ "\xe2\x82\xac" FORTY, "\xe2\x82\xac"
					"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..." },
		/* It ends between two characters. */
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xe2\x82\xac"
		  "a",
		  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..." },
		{ "a\x1b[1m", "a\\x1b[1m" },
	};

	_Static_assert(sizeof(FORTY) - 1 == TEXT_EXCERPT_MAX, "the longest excerpt");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ck_assert_str_eq(shown(text_excerpt, rows[i][0], strlen(rows[i][0])), rows[i][1]);
}

TEST(escapes_in_labels_are_whole)
{
	struct text text = fresh(6);

	text_label(&text, S("a\xff"));
	ck_assert(text.cut);
	ck_assert_str_eq(buffer, "a");
	text = fresh(2);
	text_label(&text, S("\""));
	ck_assert(text.cut);
	ck_assert_str_eq(buffer, "");
}
