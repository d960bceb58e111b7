/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "tests/suite.h"

/* "NAME:USERS NAME:USERS" of all lines that were read. */
static const char *read_status(const char *text, size_t size)
{
	static char result[4096];
	struct text out = text_make(result, sizeof(result));
	struct cursor rest = cursor_make(text, size);
	struct status_line line;

	while (text_next_status(&rest, &line))
		text_printf(&out, "%s%.*s:%u", out.length > 0 ? " " : "", (int)line.length, line.name, line.used_by);
	return result;
}

TEST(each_event_of_a_status_is_read)
{
	static const struct {
		const char *status, *events;
	} cases[] = {
		/* Linux 6.12 */
		{ "foo # Used by ftrace perf\nbaz # Used by ftrace\nbar\nmu.0 # Used by other\n\nActive: 4\nBusy: 3\n",
		  "foo:3 baz:1 bar:0 mu.0:4" },
		/* Linux 6.1 */
		{ "1:foo # Used by ftrace perf other\n3:baz # Used by perf\n2:bar\n\nActive: 3\nBusy: 2\nMax: 32768\n",
		  "foo:7 baz:2 bar:0" },
		{ "\nActive: 0\nBusy: 0\n", "" },
		{ "", "" },
		{ "\n\n\n", "" },
		/* The last line has no end. */
		{ "foo", "foo:0" },
		{ "foo # Used by perf", "foo:2" },
		/* Unknown tracers. */
		{ "foo # Used by bpf\nbar # Used by ftrace bpf\n", "foo:4 bar:5" },
		/* Names with odd bytes. */
		{ "a#b\n../x # Used by ftrace\n12\n-\n\xff\n", "a#b:0 ../x:1 12:0 -:0 \xff:0" },
		/* Lines of another form. */
		{ " foo\n1: \n:foo\nx:foo\n1:a:b\nfoo bar\nfoo #\nfoo # Used\n1:\nok\n", "ok:0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_str_eq(read_status(cases[i].status, strlen(cases[i].status)), cases[i].events);
	ck_assert_str_eq(read_status("a\0b\n", 4), "a:0");
}

#define COMMON                                                                                                         \
	"name: foo\nID: 660\nformat:\n"                                                                                \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                                 \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static struct event_format format;

TEST(a_format_has_the_fields_as_registered)
{
	ck_assert_int_eq(text_read_format(COMMON "\tfield:u32 x;\toffset:8;\tsize:4;\tsigned:0;\n"
						 "\tfield:s16 y;\toffset:12;\tsize:2;\tsigned:1;\n"
						 "\tfield:__rel_loc char path[];\toffset:14;\tsize:4;\tsigned:1;\n"
						 "\tfield:char name[8];\toffset:18;\tsize:8;\tsigned:1;\n"
						 "\tfield:unsigned int ui;\toffset:26;\tsize:4;\tsigned:0;\n"
						 "\tfield:struct blob b;\toffset:30;\tsize:5;\tsigned:1;\n"
						 "\tfield:__data_loc char[] old;\toffset:35;\tsize:4;\tsigned:1;\n"
						 "\nprint fmt: \"x=%u\", REC->x\n",
					  &format),
			 0);
	ck_assert_uint_eq(format.id, 660);
	ck_assert(format.exact);
	ck_assert_str_eq(format.fields, "u32 x; s16 y; __rel_loc char[] path; char[8] name; unsigned int ui; "
					"struct blob b 5; __data_loc char[] old");
}

TEST(numbers_in_brackets_are_ignored)
{
	ck_assert_int_eq(text_read_format(COMMON
					  "\tfield:__rel_loc char path[13109852];\toffset:8;\tsize:4;\tsigned:1;\n"
					  "\tfield:char name[3249696];\toffset:12;\tsize:8;\tsigned:1;\n"
					  "\tfield:unsigned char raw[-7];\toffset:20;\tsize:3;\tsigned:0;\n",
					  &format),
			 0);
	ck_assert(format.exact);
	ck_assert_str_eq(format.fields, "__rel_loc char[] path; char[8] name; unsigned char[3] raw");
}

TEST(an_event_without_fields_has_none)
{
	ck_assert_int_eq(text_read_format(COMMON "\nprint fmt: \"\"\n", &format), 0);
	ck_assert(format.exact);
	ck_assert_str_eq(format.fields, "");
}

TEST(fields_with_a_gap_are_not_exact)
{
	ck_assert_int_eq(text_read_format(COMMON "\tfield:u8 a;\toffset:8;\tsize:1;\tsigned:0;\n"
						 "\tfield:u32 b;\toffset:12;\tsize:4;\tsigned:0;\n",
					  &format),
			 0);
	ck_assert(!format.exact);
}

TEST(too_many_fields_are_not_exact)
{
	char text[32768];
	struct text out = text_make(text, sizeof(text));

	text_printf(&out, COMMON);
	for (unsigned i = 0; i < 200; i++)
		text_printf(&out, "\tfield:u8 field_%u;\toffset:%u;\tsize:1;\tsigned:0;\n", i, 8 + i);
	ck_assert(!out.cut);
	ck_assert_int_eq(text_read_format(text, &format), 0);
	ck_assert(!format.exact);
}

TEST(a_malformed_format_is_refused)
{
	static const char *const texts[] = {
		"",
		"name: foo\n",
		"ID: \n",
		"ID: 0\n",
		"ID: 65536\n",
		"ID: 1\n\tfield:\n",
		"ID: 1\n\tfield:u32 x;\n",
		"ID: 1\n\tfield:u32 x;\toffset:8;\n",
		"ID: 1\n\tfield:u32 x;\toffset:8;\tsize:;\n",
		"ID: 1\n\tfield:u32 x;\toffset:8;\tsize:99999999;\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		ck_assert_msg(text_read_format(texts[i], &format) == -EBADMSG, "%s", texts[i]);
}

TEST(a_field_without_a_blank_does_no_harm)
{
	ck_assert_int_eq(
		text_read_format("ID: 1\n\tfield:x;\toffset:8;\tsize:4;\n\tfield:;\toffset:12;\tsize:0;\n", &format),
		0);
}

TEST(the_last_id_line_before_the_format_counts)
{
	ck_assert_int_eq(text_read_format("name: foo\nID: 7\nID: 660\nformat:\n\nprint fmt: \"\"\nID: 9\n", &format),
			 0);
	ck_assert_uint_eq(format.id, 660);
}

TEST(a_number_is_found_by_its_whole_key)
{
	const char *stats = "entries: 3\ncommit overrun: 5\noverrun: 12345678901\nbytes:\n";
	uint64_t number = 77;

	ck_assert(text_find_number(stats, "overrun", &number));
	ck_assert_uint_eq(number, UINT64_C(12345678901));
	ck_assert(text_find_number(stats, "commit overrun", &number));
	ck_assert_uint_eq(number, 5);
	ck_assert(!text_find_number(stats, "over", &number));
	ck_assert(!text_find_number(stats, "dropped events", &number));
	ck_assert(!text_find_number("overrun", "overrun", &number));
	ck_assert_uint_eq(number, 5);
}

TEST(a_line_is_found_as_a_whole)
{
	const char *enabled = "sched:sched_switch\nuser_events:foo\nuser_events_multi:mu.0";

	ck_assert(text_has_line(enabled, "user_events:foo"));
	ck_assert(text_has_line(enabled, "user_events_multi:mu.0"));
	ck_assert(!text_has_line(enabled, "user_events:fo"));
	ck_assert(!text_has_line(enabled, "user_events:foo "));
	ck_assert(!text_has_line("", "user_events:foo"));
}

TEST(a_command_is_found_by_its_pid)
{
	const char *saved = "1 systemd\n12 kworker/0:1 x\n123 direct\nx bad\n4 \n";
	char comm[8];

	ck_assert(text_find_command(saved, 123, comm, sizeof(comm)));
	ck_assert_str_eq(comm, "direct");
	ck_assert(text_find_command(saved, 12, comm, sizeof(comm)));
	ck_assert_str_eq(comm, "kworker");
	ck_assert(!text_find_command(saved, 2, comm, sizeof(comm)));
	ck_assert(!text_find_command(saved, 4, comm, sizeof(comm)));
	ck_assert(!text_find_command("", 1, comm, sizeof(comm)));
}

TEST(only_instances_of_a_tail_have_a_pid)
{
	ck_assert_uint_eq(text_instance_pid("userevctl-1234"), 1234);
	ck_assert_uint_eq(text_instance_pid("userevctl-"), 0);
	ck_assert_uint_eq(text_instance_pid("userevctl-12x"), 0);
	ck_assert_uint_eq(text_instance_pid("userevctl-12345678901"), 0);
	ck_assert_uint_eq(text_instance_pid("userevctl"), 0);
	ck_assert_uint_eq(text_instance_pid("myuserevctl-12"), 0);
	ck_assert_uint_eq(text_instance_pid(""), 0);
}
