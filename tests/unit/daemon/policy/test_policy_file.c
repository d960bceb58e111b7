/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/file.h"

#include <stdio.h>

#include "protocol/base/text.h"
#include "tests/suite.h"

/* What was read, one line for each: "number [section]", "number key=value" or "number !line: what is wrong". */
static const char *read_bytes(const char *bytes, size_t length)
{
	static char said[4096];
	_cleanup_(freep) char *text = malloc(length + 1);
	struct text out = text_make(said, sizeof(said));
	struct policy_reader reader;
	struct policy_line line;

	ck_assert_ptr_nonnull(text);
	memcpy(text, bytes, length);
	text[length] = '\0';
	reader = policy_reader_make(text, length);
	while (policy_reader_next(&reader, &line)) {
		if (line.kind == LINE_SECTION)
			text_printf(&out, "%u [%s]\n", line.number, line.name);
		else if (line.kind == LINE_ASSIGNMENT)
			text_printf(&out, "%u %s=%s\n", line.number, line.name, line.value);
		else
			text_printf(&out, "%u !%s: %s\n", line.number, line.name, line.wrong);
	}
	return said;
}

static const char *read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

TEST(sections_and_assignments_come_with_their_lines)
{
	ck_assert_str_eq(read_text("[Daemon]\nA=1\n\n[/x/*]\nB=two words\n"),
			 "1 [Daemon]\n2 A=1\n4 [/x/*]\n5 B=two words\n");
	ck_assert_str_eq(read_text(""), "");
	ck_assert_str_eq(read_text("\n\n\n"), "");
	ck_assert_str_eq(read_text("A=without a newline"), "1 A=without a newline\n");
}
END_TEST

TEST(comments_and_empty_lines_are_passed_over)
{
	ck_assert_str_eq(read_text("# A=1\n; A=2\n  # A=3\n\t;\n \t \nA=4\n"), "6 A=4\n");
	/* Not behind something: a value may have one. */
	ck_assert_str_eq(read_text("A=1 # one\n"), "1 A=1 # one\n");
	/* A comment ends with its line. */
	ck_assert_str_eq(read_text("# comment \\\nA=1\n"), "2 A=1\n");
}
END_TEST

TEST(blanks_around_names_and_values_are_none_of_them)
{
	ck_assert_str_eq(read_text("  A =  1  \n[ /x ]\t\n"), "1 A=1\n2 [/x]\n");
	ck_assert_str_eq(read_text("A=\nB= \n"), "1 A=\n2 B=\n");
	ck_assert_str_eq(read_text("A=b=c\n"), "1 A=b=c\n");
	ck_assert_str_eq(read_text("[Daemon]\r\nA=1\r\n\r\n"), "1 [Daemon]\n2 A=1\n");
}
END_TEST

TEST(a_line_goes_on_after_a_backslash)
{
	ck_assert_str_eq(read_text("A=1 \\\n  2\\\n3\nB=4\n"), "1 A=1    2 3\n4 B=4\n");
	ck_assert_str_eq(read_text("A=1\\\r\n2\r\n"), "1 A=1 2\n");
	ck_assert_str_eq(read_text("A=1\\"), "1 A=1\n");
	ck_assert_str_eq(read_text("A=1\\\n"), "1 A=1\n");
	ck_assert_str_eq(read_text("A=1\\\n\nB=2\n"), "1 A=1\n3 B=2\n");
	/* As in systemd, comments may stand between. */
	ck_assert_str_eq(read_text("A=1\\\n# not this\n; nor this\n2\nB=3\n"), "1 A=1 2\n5 B=3\n");
	ck_assert_str_eq(read_text("A=1\\\n# the end"), "1 A=1\n");
	/* Two of them are two bytes of the value; three are those and one. */
	ck_assert_str_eq(read_text("A=1\\\\\nB=2\n"), "1 A=1\\\\\n2 B=2\n");
	ck_assert_str_eq(read_text("A=1\\\\\\\n2\n"), "1 A=1\\\\ 2\n");
	/* Elsewhere it is any byte. */
	ck_assert_str_eq(read_text("[/a\\x2db/*]\nA=\\n\n"), "1 [/a\\x2db/*]\n2 A=\\n\n");
}
END_TEST

TEST(what_is_in_brackets_may_have_brackets)
{
	ck_assert_str_eq(read_text("[/x[0-9]]\n[/[a]/[b]]\n[]\n"), "1 [/x[0-9]]\n2 [/[a]/[b]]\n3 []\n");
}
END_TEST

TEST(what_is_neither_is_wrong_and_the_next_line_is_read)
{
	ck_assert_str_eq(read_text("nonsense\nA=1\n"),
			 "1 !nonsense: write [Section], Key=value, or # and a comment\n2 A=1\n");
	ck_assert_str_eq(read_text("=1\n"), "1 !=1: the key is missing in front of '='\n");
	ck_assert_str_eq(read_text("[Daemon\n"),
			 "1 ![Daemon: a section's name ends with ']', and nothing stands behind it\n");
	ck_assert_str_eq(read_text("[Daemon] # the daemon\n["),
			 "1 ![Daemon] # the daemon: a section's name ends with ']', and nothing stands behind it\n"
			 "2 ![: a section's name ends with ']', and nothing stands behind it\n");
}
END_TEST

TEST(a_mark_at_the_beginning_is_passed_over)
{
	ck_assert_str_eq(read_text("\xef\xbb\xbf[Daemon]\nA=1\n"), "1 [Daemon]\n2 A=1\n");
	ck_assert_str_eq(read_text("\xef\xbb\xbf"), "");
	ck_assert_str_eq(read_text("\xef\xbb"), "1 !\xef\xbb: write [Section], Key=value, or # and a comment\n");
}
END_TEST

/* Each line would be looked at again with all before it. */
TEST(a_line_that_goes_on_for_ever_takes_no_longer_than_any_other)
{
	enum { LINES = 1 << 19 };
	char *text = malloc(2 * LINES + 1);
	struct policy_reader reader;
	struct policy_line line;

	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < LINES; i++)
		memcpy(text + 2 * i, "\\\n", 3);
	memcpy(text, "A=", 2);
	reader = policy_reader_make(text, (size_t)2 * LINES);
	ck_assert(policy_reader_next(&reader, &line));
	ck_assert_str_eq(line.value, "");
	ck_assert(!policy_reader_next(&reader, &line));
	free(text);
}
END_TEST

/* Under ASan: nothing is read or written beyond the text, wherever it ends. */
TEST(a_text_may_end_anywhere)
{
	static const char text[] = "\xef\xbb\xbf# c\n[/a[b]]\nKey = v \\\r\n # c\\\n w \\\\\n=\n[x\nKey=\\";

	for (size_t length = 0; length < sizeof(text); length++)
		read_bytes(text, length);
}
END_TEST

SUITE("policy_file", sections_and_assignments_come_with_their_lines, comments_and_empty_lines_are_passed_over,
      blanks_around_names_and_values_are_none_of_them, a_line_goes_on_after_a_backslash,
      what_is_in_brackets_may_have_brackets, what_is_neither_is_wrong_and_the_next_line_is_read,
      a_mark_at_the_beginning_is_passed_over, a_line_that_goes_on_for_ever_takes_no_longer_than_any_other,
      a_text_may_end_anywhere)
