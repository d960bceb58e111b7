/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/glob.h"

#include <stdio.h>

#include "protocol/base/text.h"
#include "tests/suite.h"

static const char *check(const char *glob)
{
	const char *wrong = glob_check(glob);

	return wrong ? wrong : "good";
}

/* The last two can be used. */
static struct pattern parse(const char *text)
{
	static char rooms[2][3300];
	static unsigned n;
	char *room = rooms[n++ % 2];
	struct pattern pattern;
	const char *wrong;

	ck_assert_uint_le(2 * strlen(text) + 2, sizeof(rooms[0]));
	wrong = pattern_parse(text, room, &pattern);
	ck_assert_msg(!wrong, "%s: %s", text, wrong);
	return pattern;
}

static bool path_matches(const char *text, const char *path)
{
	struct pattern pattern = parse(text);

	return pattern_matches(&pattern, path, path_depth(path));
}

/* Globs match in patterns of cgroups and, where they have no escaped byte, as globs of event names. */
static void expect_match(const char *glob, const char *name, bool wanted)
{
	char text[64], path[64];

	ck_assert_msg(streq(check(glob), "good"), "%s: %s", glob, check(glob));
	snprintf(text, sizeof(text), "/%s", glob);
	snprintf(path, sizeof(path), "/%s", name);
	if (*glob && *name && !streq(glob, "**"))
		ck_assert_msg(path_matches(text, path) == wanted, "'%s' and '%s'", text, path);
	if (!strchr(glob, '\\'))
		ck_assert_msg(glob_match(glob, name) == wanted, "'%s' and '%s'", glob, name);
}

TEST(glob_matches_name)
{
	static const struct {
		const char *glob;
		const char *name;
		bool matches;
	} cases[] = {
		{ "cron.service", "cron.service", true },
		{ "cron.service", "cron.servic", false },
		{ "cron.service", "cron.services", false },
		{ "cron.service", "cronxservice", false },
		{ "cron", "Cron", false },
		{ "", "", true },
		{ "", "a", false },
		{ "a", "", false },
		{ "*", "", true },
		{ "*", "anything", true },
		{ "*", ".hidden", true },
		{ "docker-*.scope", "docker-.scope", true },
		{ "docker-*.scope", "docker-0a1b.scope.scope", true },
		{ "docker-*.scope", "docker-0a1b.scope.slice", false },
		{ "*a*b*", "xxaxxbxx", true },
		{ "*a*b*", "xxbxxaxx", false },
		{ "*b", "aaaab", true },
		{ "a**b", "ab", true },
		{ "?", "x", true },
		{ "?", "", false },
		{ "?", "xy", false },
		{ "?", "\xc3\xa4", false },
		{ "??", "\xc3\xa4", true },
		{ "a?c*", "abc", true },
		{ "*?", "x", true },
		{ "*?", "", false },
		{ "[abc]", "b", true },
		{ "[abc]", "d", false },
		{ "[abc]", "", false },
		{ "x[0-9a-f]y", "x7y", true },
		{ "x[0-9a-f]y", "xfy", true },
		{ "x[0-9a-f]y", "xgy", false },
		{ "[!0-9]", "a", true },
		{ "[^0-9]", "a", true },
		{ "[!0-9]", "5", false },
		{ "[]a]", "]", true },
		{ "[!]a]", "b", true },
		{ "[!]a]", "]", false },
		{ "[a-]", "-", true },
		{ "[-a]", "-", true },
		{ "[a-c-a]", "-", true },
		{ "[*?\\]", "\\", true },
		{ "[*?]", "x", false },
		{ "[\x80-\xff]", "\xc3", true },
		{ "*[0-9]*", "abc5", true },
		{ "a\\x2db.slice", "a\\x2db.slice", true },
		{ "a\\x2db.slice", "a-b.slice", false },
		{ "a\\x2d*.slice", "a\\x2dwhatever.slice", true },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "\\?\\[", "?[", true },
		{ "\\", "\\", true },
		{ "\\\\", "\\\\", true },
		{ "[\\]*", "\\anything", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_match(cases[i].glob, cases[i].name, cases[i].matches);
}

TEST(wrong_glob_is_refused)
{
	ck_assert_str_eq(check("[abc"), "a '[' has no ']' in the same name; write \\[ for the character itself");
	ck_assert_str_eq(check("["), "a '[' has no ']' in the same name; write \\[ for the character itself");
	ck_assert_str_eq(check("[!"), "a '[' has no ']' in the same name; write \\[ for the character itself");
	ck_assert_str_eq(check("[]"), "a '[' has no ']' in the same name; write \\[ for the character itself");
	ck_assert_str_eq(check("x[z-a]"), "a range in [] ends before it begins");
	ck_assert_str_eq(check("[[:alpha:]]"), "there are no classes such as [[:alpha:]]; write [a-zA-Z]");
	ck_assert_str_eq(check("a]"), "good");
	ck_assert_str_eq(check("\\["), "good");
}

/* Trying all ways to match it would take for ever. */
TEST(hostile_glob_is_matched_in_no_time)
{
	char glob[257] = "", name[257];

	for (size_t i = 0; i < 128; i++)
		memcpy(glob + 2 * i, "*a", 3);
	glob[255] = 'b';
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(glob_match(glob, name), 0);
	name[sizeof(name) - 2] = 'b';
	ck_assert_int_eq(glob_match(glob, name), 1);
}

TEST(pattern_matches_path)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} cases[] = {
		{ "/system.slice/*.service", "/system.slice/cron.service", true },
		{ "/system.slice/*.service", "/system.slice/a/cron.service", false },
		{ "/system.slice/*", "/system.slice", false },
		{ "/system.slice/*", "/system.slice/a/b", false },
		{ "/*/*", "/a/b", true },
		{ "/a?b", "/a/b", false },
		{ "/a[!x]b", "/a/b", false },
		{ "/", "/", true },
		{ "/", "/a", false },
		{ "/*", "/", false },
		{ "/a/b/c", "/a/b/c", true },
		{ "/a/b/c", "/a/b/d", false },
		{ "/.hidden*", "/.hidden_too", true },
		{ "/*", "/.hidden", true },
		{ "/**", "/", true },
		{ "/**", "/a/b/c", true },
		{ "/a/**", "/a", true },
		{ "/a/**", "/a/b", true },
		{ "/a/**", "/b/a", false },
		{ "/a/**", "/ab", false },
		{ "/**/x", "/x", true },
		{ "/**/x", "/a/x", true },
		{ "/**/x", "/a/b/x", true },
		{ "/**/x", "/a/x/b", false },
		{ "/a/**/x/**/y", "/a/x/y", true },
		{ "/a/**/x/**/y", "/a/1/x/2/x/3/y", true },
		{ "/a/**/x/**/y", "/a/1/y/2/x", false },
		{ "/**/**/*", "/a", true },
		{ "/**/**/*", "/", false },
		/* In a name they are two stars, each for bytes of that name. */
		{ "/a**", "/abc", true },
		{ "/a**", "/a/b", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_msg(path_matches(cases[i].pattern, cases[i].path) == cases[i].matches, "%s and %s",
			      cases[i].pattern, cases[i].path);
}

TEST(hostile_path_is_matched_in_no_time)
{
	char text[1600] = "", path[4001] = "";

	for (size_t i = 0; i < 300; i++)
		memcpy(text + 5 * i, "/**/a", 6);
	text[5 * 300 - 1] = 'b';
	for (size_t i = 0; i < 2000; i++)
		memcpy(path + 2 * i, "/a", 3);
	ck_assert(!path_matches(text, path));
	path[3999] = 'b';
	ck_assert(path_matches(text, path));
}

static const char *refusal(const char *text)
{
	char room[64];
	struct pattern pattern;

	return pattern_parse(text, room, &pattern);
}

TEST(wrong_pattern_is_refused)
{
	ck_assert_str_eq(refusal("system.slice"), "a pattern of cgroups begins with '/'");
	ck_assert_str_eq(refusal(""), "a pattern of cgroups begins with '/'");
	ck_assert_str_eq(refusal("/a//b"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("/a/"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("//"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("/a[/]b"), "a '[' has no ']' in the same name; write \\[ for the character itself");
}

/* Each is less specific than the one before it. */
TEST(more_specific_pattern_comes_first)
{
	static const char *const patterns[] = {
		"/a/b/c", "/aaaa/bbbb", "/a/b",	  "/aaa/x*", "/\\*aa/*", "/a/x*",
		"/a/*",	  "/a/**",	"/*xx/*", "/*x/*",   "/*/*",	 "/**",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(patterns); j++) {
			struct pattern a = parse(patterns[i]), b = parse(patterns[j]);
			int order = pattern_compare(&a, &b);

			ck_assert_msg(i == j  ? order == 0
				      : i < j ? order > 0
					      : order < 0,
				      "%s, %s: %d", patterns[i], patterns[j], order);
		}
	}
}

static bool overlap(const char *a, const char *b)
{
	bool one = globs_overlap(a, b);

	ck_assert_msg(globs_overlap(b, a) == one, "'%s' and '%s'", a, b);
	return one;
}

/* All globs of up to three of these pieces; one name for two of them has at most six bytes. */
enum { PIECES = 6, GLOBS = 1 + PIECES + PIECES * PIECES + PIECES * PIECES * PIECES, NAMES = 127 };

static void number_glob(size_t number, char *ret)
{
	static const char *const pieces[PIECES] = { "a", "b", "*", "?", "[ab]", "[!a]" };

	struct text text = text_make(ret, 16);

	for (; number > 0; number = (number - 1) / PIECES)
		text_printf(&text, "%s", pieces[(number - 1) % PIECES]);
}

static void number_name(size_t number, char *ret)
{
	for (number++; number > 1; number /= 2)
		*ret++ = number % 2 ? 'a' : 'b';
	*ret = '\0';
}

TEST(globs_overlap_agrees_with_trying_all_names)
{
	static bool taken[GLOBS][NAMES];
	char glob[16], other[16], name[8];

	ck_assert(overlap("shop_L[1-5]K*", "shop_L5*"));
	ck_assert(!overlap("shop_L[1-5]K*", "shop_L6*"));
	ck_assert(overlap("[a-c]*", "[!a-b]*"));
	ck_assert(!overlap("[a-c]*", "[!a-d]*"));
	for (size_t i = 0; i < GLOBS; i++) {
		number_glob(i, glob);
		for (size_t n = 0; n < NAMES; n++) {
			number_name(n, name);
			taken[i][n] = glob_match(glob, name) > 0;
		}
	}
	for (size_t i = 0; i < GLOBS; i++) {
		for (size_t j = 0; j <= i; j++) {
			bool both = false;

			for (size_t n = 0; n < NAMES; n++)
				both |= taken[i][n] && taken[j][n];
			number_glob(i, glob);
			number_glob(j, other);
			ck_assert_msg(overlap(glob, other) == both, "'%s' and '%s'", glob, other);
		}
	}
}

TEST(longest_globs_are_compared_in_no_time)
{
	char stars[GLOB_BYTES_MAX + 1] = "", sets[GLOB_BYTES_MAX + 1] = "";

	for (size_t i = 0; i < GLOB_BYTES_MAX; i++)
		stars[i] = i % 2 ? 'a' : '*';
	for (size_t i = 0; i < GLOB_BYTES_MAX / 4 * 4; i++)
		sets[i] = "[ab]"[i % 4];
	ck_assert(!globs_overlap(stars, sets));
	ck_assert(globs_overlap(stars, stars));
	ck_assert(globs_overlap(sets, sets));
}
