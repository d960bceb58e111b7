/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/build.h"

#include "tests/suite.h"

/* The lines that were read, each with its number. */
static const char *read_bytes(const char *bytes, size_t length)
{
	static char said[4096];
	_cleanup_(freep) char *text = malloc(length + 1);
	struct text out = text_make(said, sizeof(said));
	struct policy_reader reader = { .at = text };
	const char *line;

	ck_assert_ptr_nonnull(text);
	memcpy(text, bytes, length);
	text[length] = '\0';
	while ((line = policy_read_line(&reader)))
		text_printf(&out, "%u %s\n", reader.number, line);
	return said;
}

TEST(text_is_read_as_lines)
{
	static const struct {
		const char *text, *lines;
	} cases[] = {
		{ "[Daemon]\nA=1\n\n[/x/*]\nB=two words\n", "1 [Daemon]\n2 A=1\n4 [/x/*]\n5 B=two words\n" },
		{ "", "" },
		{ "\n\n\n", "" },
		{ "A=without a newline", "1 A=without a newline\n" },
		{ "# A=1\n; A=2\n  # A=3\n\t;\n \t \nA=4\n", "6 A=4\n" },
		/* A value may contain a #. */
		{ "A=1 # one\n", "1 A=1 # one\n" },
		/* A comment ends with its line. */
		{ "# comment \\\nA=1\n", "2 A=1\n" },
		{ "  A =  1  \n[ /x ]\t\n", "1 A =  1\n2 [ /x ]\n" },
		{ "A=\nB= \n", "1 A=\n2 B=\n" },
		{ "A=b=c\n", "1 A=b=c\n" },
		{ "[Daemon]\r\nA=1\r\n\r\n", "1 [Daemon]\n2 A=1\n" },
		{ "A=1 \\\n  2\\\n3\nB=4\n", "1 A=1    2 3\n4 B=4\n" },
		{ "A=1\\\r\n2\r\n", "1 A=1 2\n" },
		{ "A=1\\", "1 A=1\n" },
		{ "A=1\\\n", "1 A=1\n" },
		{ "A=1\\\n\nB=2\n", "1 A=1\n3 B=2\n" },
		/* As in systemd, comments may stand between. */
		{ "A=1\\\n# not this\n; nor this\n2\nB=3\n", "1 A=1 2\n5 B=3\n" },
		{ "A=1\\\n# the end", "1 A=1\n" },
		/* A pair of backslashes is two bytes of the value. */
		{ "A=1\\\\\nB=2\n", "1 A=1\\\\\n2 B=2\n" },
		{ "A=1\\\\\\\n2\n", "1 A=1\\\\ 2\n" },
		/* Not at the end of the line. */
		{ "[/a\\x2db/*]\nA=\\n\n", "1 [/a\\x2db/*]\n2 A=\\n\n" },
		{ "[/x[0-9]]\n[/[a]/[b]]\n[]\n", "1 [/x[0-9]]\n2 [/[a]/[b]]\n3 []\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_str_eq(read_bytes(cases[i].text, strlen(cases[i].text)), cases[i].lines);
}

/* If each line were appended by reading all lines before it, this would take hours. */
TEST(endless_continuation_is_read_in_no_time)
{
	enum { LINES = 1 << 19 };
	char *text = malloc(2 * LINES + 1);
	struct policy_reader reader = { .at = text };

	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < LINES; i++)
		memcpy(text + 2 * i, "\\\n", 3);
	memcpy(text, "A=", 2);
	ck_assert_str_eq(policy_read_line(&reader), "A=");
	ck_assert_ptr_null(policy_read_line(&reader));
	free(text);
}

/* For ASan. */
TEST(truncated_text_is_read_within_its_bounds)
{
	static const char text[] = "\xef\xbb\xbf# c\n[/a[b]]\nKey = v \\\r\n # c\\\n w \\\\\n=\n[x\nKey=\\";

	for (size_t length = 0; length < sizeof(text); length++)
		read_bytes(text, length);
}
