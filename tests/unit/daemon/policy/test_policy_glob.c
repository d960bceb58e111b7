/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/glob.h"

#include <stdio.h>

#include "tests/suite.h"

static const char *check(const char *glob)
{
	static char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));

	return glob_check(glob, strlen(glob), &why) == 0 ? "good" : buffer;
}

static bool matches(const char *glob, const char *name)
{
	ck_assert_str_eq(check(glob), "good");
	return glob_matches(glob, strlen(glob), name, strlen(name));
}

TEST(a_name_without_anything_wild_matches_itself_alone)
{
	ck_assert(matches("cron.service", "cron.service"));
	ck_assert(!matches("cron.service", "cron.servic"));
	ck_assert(!matches("cron.service", "cron.services"));
	ck_assert(!matches("cron.service", "cronxservice"));
	ck_assert(!matches("cron", "Cron"));
	ck_assert(matches("", ""));
	ck_assert(!matches("", "a"));
	ck_assert(!matches("a", ""));
}
END_TEST

TEST(a_star_is_any_number_of_bytes_and_a_question_mark_is_one)
{
	ck_assert(matches("*", ""));
	ck_assert(matches("*", "anything"));
	ck_assert(matches("docker-*.scope", "docker-.scope"));
	ck_assert(matches("docker-*.scope", "docker-0a1b.scope.scope"));
	ck_assert(!matches("docker-*.scope", "docker-0a1b.scope.slice"));
	ck_assert(matches("*a*b*", "xxaxxbxx"));
	ck_assert(!matches("*a*b*", "xxbxxaxx"));
	for (size_t i = 0; i < 5; i++)
		ck_assert(matches("*b", &"aaaab"[i]));
	ck_assert(matches("a**b", "ab"));
	ck_assert(matches("?", "x"));
	ck_assert(!matches("?", ""));
	ck_assert(!matches("?", "xy"));
	ck_assert(matches("a?c*", "abc"));
	ck_assert(matches("*?", "x"));
	ck_assert(!matches("*?", ""));
}
END_TEST

TEST(a_set_is_one_of_its_bytes_or_of_its_ranges_or_none_of_them)
{
	ck_assert(matches("[abc]", "b"));
	ck_assert(!matches("[abc]", "d"));
	ck_assert(!matches("[abc]", ""));
	ck_assert(matches("x[0-9a-f]y", "x7y"));
	ck_assert(matches("x[0-9a-f]y", "xfy"));
	ck_assert(!matches("x[0-9a-f]y", "xgy"));
	ck_assert(matches("[!0-9]", "a"));
	ck_assert(matches("[^0-9]", "a"));
	ck_assert(!matches("[!0-9]", "5"));
	/* Where they stand first or last they are themselves. */
	ck_assert(matches("[]a]", "]"));
	ck_assert(matches("[!]a]", "b"));
	ck_assert(!matches("[!]a]", "]"));
	ck_assert(matches("[a-]", "-"));
	ck_assert(matches("[-a]", "-"));
	ck_assert(matches("[*?\\]", "\\"));
	ck_assert(!matches("[*?]", "x"));
	ck_assert(matches("[\x80-\xff]", "\xc3"));
	ck_assert(matches("*[0-9]*", "abc5"));
}
END_TEST

TEST(a_backslash_is_itself_unless_something_wild_stands_behind_it)
{
	ck_assert(matches("a\\x2db.slice", "a\\x2db.slice"));
	ck_assert(!matches("a\\x2db.slice", "a-b.slice"));
	ck_assert(matches("a\\x2d*.slice", "a\\x2dwhatever.slice"));
	ck_assert(matches("\\*", "*"));
	ck_assert(!matches("\\*", "a"));
	ck_assert(matches("\\?\\[", "?["));
	ck_assert(matches("\\", "\\"));
	ck_assert(matches("\\\\", "\\\\"));
	ck_assert(matches("[\\]*", "\\anything"));
}
END_TEST

TEST(what_cannot_be_read_is_refused_with_what_would_be_right)
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
END_TEST

TEST(what_a_glob_fixes_is_counted)
{
	static const struct {
		const char *glob;
		size_t bytes;
		bool wild;
	} globs[] = {
		{ "cron", 4, false }, { "cr*n", 3, true },   { "[a-z]x?", 1, true }, { "**", 0, true },
		{ "\\*a", 2, false }, { "\\x2d", 4, false }, { "", 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(globs); i++) {
		bool wild;

		ck_assert_uint_eq(glob_literal_bytes(globs[i].glob, strlen(globs[i].glob), &wild), globs[i].bytes);
		ck_assert(wild == globs[i].wild);
	}
}
END_TEST

/* One that is tried in all ways would not be done before the sun is. */
TEST(a_hostile_name_takes_no_longer_than_any_other)
{
	char glob[2001] = "", name[4001];

	for (size_t i = 0; i < 1000; i++)
		memcpy(glob + 2 * i, "*a", 3);
	glob[1999] = 'b';
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert(!matches(glob, name));
	name[sizeof(name) - 2] = 'b';
	ck_assert(matches(glob, name));
}
END_TEST

static struct pattern parse(const char *text)
{
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	struct pattern pattern;

	ck_assert_msg(pattern_parse(text, &pattern, &why) == 0, "%s: %s", text, buffer);
	return pattern;
}

static bool path_matches(const char *text, const char *path)
{
	_cleanup_(pattern_deinit) struct pattern pattern = parse(text);

	return pattern_matches(&pattern, path, path_depth(path));
}

TEST(a_pattern_is_matched_component_by_component)
{
	ck_assert(path_matches("/system.slice/*.service", "/system.slice/cron.service"));
	ck_assert(!path_matches("/system.slice/*.service", "/system.slice/a/cron.service"));
	ck_assert(!path_matches("/system.slice/*", "/system.slice"));
	ck_assert(!path_matches("/system.slice/*", "/system.slice/a/b"));
	ck_assert(path_matches("/*/*", "/a/b"));
	ck_assert(!path_matches("/a?b", "/a/b"));
	ck_assert(!path_matches("/a[!x]b", "/a/b"));
	ck_assert(path_matches("/", "/"));
	ck_assert(!path_matches("/", "/a"));
	ck_assert(!path_matches("/*", "/"));
	ck_assert(path_matches("/a/b/c", "/a/b/c"));
	ck_assert(!path_matches("/a/b/c", "/a/b/d"));
	ck_assert(path_matches("/.hidden*", "/.hidden_too"));
	ck_assert(path_matches("/*", "/.hidden"));
}
END_TEST

TEST(two_stars_are_any_number_of_components_and_also_none)
{
	ck_assert(path_matches("/**", "/"));
	ck_assert(path_matches("/**", "/a/b/c"));
	ck_assert(path_matches("/a/**", "/a"));
	ck_assert(path_matches("/a/**", "/a/b"));
	ck_assert(!path_matches("/a/**", "/b/a"));
	ck_assert(!path_matches("/a/**", "/ab"));
	ck_assert(path_matches("/**/x", "/x"));
	ck_assert(path_matches("/**/x", "/a/x"));
	ck_assert(path_matches("/**/x", "/a/b/x"));
	ck_assert(!path_matches("/**/x", "/a/x/b"));
	ck_assert(path_matches("/a/**/x/**/y", "/a/x/y"));
	ck_assert(path_matches("/a/**/x/**/y", "/a/1/x/2/x/3/y"));
	ck_assert(!path_matches("/a/**/x/**/y", "/a/1/y/2/x"));
	ck_assert(path_matches("/**/**/*", "/a"));
	ck_assert(!path_matches("/**/**/*", "/"));
	/* In a name they are two stars, each for bytes of that name. */
	ck_assert(path_matches("/a**", "/abc"));
	ck_assert(!path_matches("/a**", "/a/b"));
}
END_TEST

TEST(a_hostile_path_takes_no_longer_than_any_other)
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
END_TEST

static const char *refusal(const char *text)
{
	static char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	struct pattern pattern;

	ck_assert_int_eq(pattern_parse(text, &pattern, &why), GLOB_E_WRONG);
	return buffer;
}

TEST(what_is_no_pattern_is_refused)
{
	ck_assert_str_eq(refusal("system.slice"), "a pattern of cgroups begins with '/'");
	ck_assert_str_eq(refusal(""), "a pattern of cgroups begins with '/'");
	ck_assert_str_eq(refusal("/a//b"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("/a/"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("//"), "between two slashes, and behind the last one, there has to be a name");
	ck_assert_str_eq(refusal("/a[/]b"), "a '[' has no ']' in the same name; write \\[ for the character itself");
}
END_TEST

/* Each says less than the one before it. */
TEST(names_say_more_than_bytes_and_bytes_more_than_nothing)
{
	static const char *const patterns[] = {
		"/a/b/c", "/aaaa/bbbb", "/a/b", "/aaa/x*", "/a/x*", "/a/*", "/a/**", "/*xx/*", "/*x/*", "/*/*", "/**",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(patterns); j++) {
			_cleanup_(pattern_deinit) struct pattern a = parse(patterns[i]), b = parse(patterns[j]);
			int order = pattern_compare(&a, &b);

			ck_assert_msg(i == j  ? order == 0
				      : i < j ? order > 0
					      : order < 0,
				      "%s, %s: %d", patterns[i], patterns[j], order);
		}
	}
}
END_TEST

static bool overlap(const char *a, const char *b)
{
	bool one = globs_overlap(a, strlen(a), b, strlen(b));

	ck_assert_msg(globs_overlap(b, strlen(b), a, strlen(a)) == one, "'%s' and '%s'", a, b);
	return one;
}

TEST(globs_overlap_if_some_name_matches_both)
{
	ck_assert(overlap("", ""));
	ck_assert(overlap("otlp_metrics", "otlp_metrics"));
	ck_assert(!overlap("otlp_metrics", "otlp_metric"));
	ck_assert(overlap("otlp_*", "*_metrics"));
	ck_assert(overlap("otlp_*", "otlp_*_x"));
	ck_assert(!overlap("otlp_*", "http_*"));
	ck_assert(overlap("*", ""));
	ck_assert(!overlap("a*b", "a*c"));
	ck_assert(overlap("a?c", "ab*"));
	ck_assert(!overlap("a?c", "ab"));
	ck_assert(overlap("shop_L[1-5]K*", "shop_L5*"));
	ck_assert(!overlap("shop_L[1-5]K*", "shop_L6*"));
	ck_assert(!overlap("[a-c]*", "[!a-d]*"));
	ck_assert(overlap("[a-c]*", "[!a-b]*"));
	ck_assert(overlap("a\\*", "a?"));
	ck_assert(!overlap("a\\*", "ab"));
}
END_TEST

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

TEST(small_globs_overlap_as_trying_all_names_shows)
{
	static bool taken[GLOBS][NAMES];
	char glob[16], other[16], name[8];

	for (size_t i = 0; i < GLOBS; i++) {
		number_glob(i, glob);
		for (size_t n = 0; n < NAMES; n++) {
			number_name(n, name);
			taken[i][n] = matches(glob, name);
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
END_TEST

TEST(the_longest_globs_are_compared_in_no_time)
{
	char stars[GLOB_COMPARED_MAX], sets[GLOB_COMPARED_MAX];

	for (size_t i = 0; i < sizeof(stars); i++) {
		stars[i] = i % 2 ? 'a' : '*';
		sets[i] = "[ab]"[i % 4];
	}
	ck_assert(!globs_overlap(stars, sizeof(stars), sets, sizeof(sets) - sizeof(sets) % 4));
	ck_assert(globs_overlap(stars, sizeof(stars), stars, sizeof(stars)));
	ck_assert(globs_overlap(sets, 252, sets, 252));
}
END_TEST

SUITE("policy_glob", a_name_without_anything_wild_matches_itself_alone,
      a_star_is_any_number_of_bytes_and_a_question_mark_is_one,
      a_set_is_one_of_its_bytes_or_of_its_ranges_or_none_of_them,
      a_backslash_is_itself_unless_something_wild_stands_behind_it,
      what_cannot_be_read_is_refused_with_what_would_be_right, what_a_glob_fixes_is_counted,
      a_hostile_name_takes_no_longer_than_any_other, a_pattern_is_matched_component_by_component,
      two_stars_are_any_number_of_components_and_also_none, a_hostile_path_takes_no_longer_than_any_other,
      what_is_no_pattern_is_refused, globs_overlap_if_some_name_matches_both,
      small_globs_overlap_as_trying_all_names_shows, the_longest_globs_are_compared_in_no_time,
      names_say_more_than_bytes_and_bytes_more_than_nothing)
