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

/* Texts in a buffer of that size. */
TEST(text_is_cut_between_characters)
{
	static const struct {
		void (*put)(struct text *, const char *, size_t);
		const char *from;
		size_t length, size;
		bool cut;
		const char *expected;
	} rows[] = {
		{ text_put, S("abcd"), 5, false, "abcd" },
		{ text_put, S("abcde"), 5, true, "abcd" },
		{ text_put, S(""), 1, false, "" },
		{ text_put, NULL, 0, 1, false, "" },
		/* Bytes that are not UTF-8. */
		{ text_put, S("\x80\x80\x80\x80\x80\x80\x80"), 6, true, "\x80\x80\x80\x80\x80" },
		/* Escapes are whole. */
		{ text_safe, S("\n"), 1, true, "" },
		{ text_safe, S("\n"), 4, true, "" },
		{ text_safe, S("\n"), 5, false, "\\x0a" },
		{ text_safe, S("\n\n"), 8, true, "\\x0a" },
		{ text_safe, S("\n\n"), 9, false, "\\x0a\\x0a" },
		{ text_label, S("a\xff"), 6, true, "a" },
		{ text_label, S("\""), 2, true, "" },
		{ text_json_string, S("\x01"), 1, true, "" },
		{ text_json_string, S("\x01"), 2, true, "\"" },
		{ text_json_string, S("\x01"), 7, true, "\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text text = fresh(rows[i].size);

		rows[i].put(&text, rows[i].from, rows[i].length);
		ck_assert_msg(text.cut == rows[i].cut, "row %zu", i);
		ck_assert_str_eq(buffer, rows[i].expected);
		ck_assert_uint_eq(text.length, strlen(buffer));
		ck_assert_int_eq(buffer[rows[i].size], '?');
	}
}

TEST(printf_fills_the_buffer)
{
	for (int end = 'd'; end <= 'e'; end++) {
		struct text text = fresh(8);

		text_printf(&text, "%d-%s%s", 12, "abcd", end == 'd' ? "" : "e");
		ck_assert_int_eq(text.cut, end == 'e');
		ck_assert_str_eq(buffer, "12-abcd");
		ck_assert_uint_eq(text.length, 7);
		ck_assert_int_eq(buffer[8], '?');
	}
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

static const char *shown(void (*put)(struct text *, const char *, size_t), const char *from, size_t length)
{
	struct text text = fresh(sizeof(buffer));

	put(&text, from, length);
	ck_assert(!text.cut);
	ck_assert_uint_eq(text.length, strlen(buffer));
	return buffer;
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
		{ text_safe, S("\xe2\x80\xa8"), "\\xe2\\x80\\xa8" }, /* line separator */
		{ text_safe, S("\xe2\x80\xaf"), "\xe2\x80\xaf" },
		{ text_safe, "\xe2\x82\xac", 2, "\\xe2\\x82" }, /* is not read beyond the length */
		/* Invalid UTF-8 is shown as bytes. */
		{ text_safe, S("\x80"), "\\x80" },
		{ text_safe, S("\xc1\xbf"), "\\xc1\\xbf" },		      /* overlong DEL */
		{ text_safe, S("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf" },	      /* overlong U+07FF */
		{ text_safe, S("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf" }, /* overlong U+FFFF */
		{ text_safe, S("\xed\xa0\x80"), "\\xed\\xa0\\x80" },	      /* first surrogate */
		{ text_safe, S("\xed\xbf\xbf"), "\\xed\\xbf\\xbf" },	      /* last surrogate */
		{ text_safe, S("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80" }, /* U+110000 */
		{ text_safe, S("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80" }, /* beyond */
		{ text_safe, S("\xc3"), "\\xc3" },			      /* ends too early */
		{ text_safe, S("\xe2\x82x"), "\\xe2\\x82x" },		      /* goes on wrong */
		{ text_safe, S("\xc3\xc3\xa4"), "\\xc3\xc3\xa4" },	      /* only the first is wrong */
		{ text_safe, S("\xed\x9f\xbf\xee\x80\x80"),
		  "\xed\x9f\xbf\xee\x80\x80" },			  /* both neighbours of the surrogates are fine */
		{ text_safe, S("\xe0\xa0\x80"), "\xe0\xa0\x80" }, /* the first of three bytes */
		{ text_safe, S("\xc2\xa1"), "\xc2\xa1" },	  /* the first of two that can be shown */
		{ text_safe, S("\xf0\x90\x80\x80"), "\xf0\x90\x80\x80" }, /* the first of four bytes */
		{ text_quoted, S("a\"b\\\n"), "\"a\\\"b\\\\\\x0a\"" },
		{ text_json_string, S(""), "\"\"" },
		{ text_json_string, S("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"" },
		{ text_json_string, S("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
		{ text_json_string, S("\0\x01\x1f"), "\"\\u0000\\u0001\\u001f\"" },
		{ text_json_string, S("\xe2\x82\xac"), "\"\xe2\x82\xac\"" },
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
		{ text_label, S(REPLACED "ff"), REPLACED "ef" REPLACED "bf" REPLACED "bdff" },
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
		ck_assert_msg(shown(text_safe, unseen[i], strlen(unseen[i]))[0] == '\\', "unseen %zu", i);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		ck_assert_str_eq(shown(text_safe, seen[i], strlen(seen[i])), seen[i]);
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
