/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "tests/suite.h"

TEST(each_event_of_a_status_is_read)
{
	static const struct {
		const char *status, *events; /* "NAME:USERS NAME:USERS" */
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

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *status = strdup(cases[i].status);
		char *rest = status, result[4096];
		struct text out = text_make(result, sizeof(result));
		unsigned used_by;
		const char *name;

		while ((name = text_next_status(&rest, &used_by)))
			text_printf(&out, "%s%s:%u", out.length > 0 ? " " : "", name, used_by);
		ck_assert_str_eq(result, cases[i].events);
	}
}

#define COMMON                                                                                                         \
	"name: foo\nID: 660\nformat:\n"                                                                                \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                                 \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static int read_format(const char *text, struct event_format *ret)
{
	_cleanup_(freep) char *copy = strdup(text);

	return text_read_format(copy, ret);
}

TEST(a_format_has_the_fields_as_registered)
{
	static const struct {
		const char *text, *fields;
	} cases[] = {
		{ COMMON "\tfield:u32 x;\toffset:8;\tsize:4;\tsigned:0;\n"
			 "\tfield:s16 y;\toffset:12;\tsize:2;\tsigned:1;\n"
			 "\tfield:__rel_loc char path[];\toffset:14;\tsize:4;\tsigned:1;\n"
			 "\tfield:char name[8];\toffset:18;\tsize:8;\tsigned:1;\n"
			 "\tfield:unsigned int ui;\toffset:26;\tsize:4;\tsigned:0;\n"
			 "\tfield:struct blob b;\toffset:30;\tsize:5;\tsigned:1;\n"
			 "\tfield:__data_loc char[] old;\toffset:35;\tsize:4;\tsigned:1;\n"
			 "\nprint fmt: \"x=%u\", REC->x\nID: 9\n",
		  "u32 x; s16 y; __rel_loc char[] path; char[8] name; unsigned int ui; struct blob b 5; "
		  "__data_loc char[] old" },
		/* Numbers in brackets are not reliable. */
		{ COMMON "\tfield:__rel_loc char path[13109852];\toffset:8;\tsize:4;\tsigned:1;\n"
			 "\tfield:char name[3249696];\toffset:12;\tsize:8;\tsigned:1;\n"
			 "\tfield:unsigned char raw[-7];\toffset:20;\tsize:3;\tsigned:0;\n",
		  "__rel_loc char[] path; char[8] name; unsigned char[3] raw" },
		{ COMMON "\nprint fmt: \"\"\n", "" },
		/* No blank. */
		{ "ID: 660\n\tfield:x;\toffset:8;\tsize:4;\n\tfield:;\toffset:12;\tsize:0;\n", "x ;  " },
	};
	struct event_format format;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert_int_eq(read_format(cases[i].text, &format), 0);
		ck_assert_uint_eq(format.id, 660);
		ck_assert_str_eq(format.fields, cases[i].fields);
		ck_assert(format.complete);
	}
}

TEST(too_many_fields_are_not_complete)
{
	struct event_format format;
	char text[32768];
	struct text out = text_make(text, sizeof(text));

	text_printf(&out, COMMON);
	for (unsigned i = 0; i < 200; i++)
		text_printf(&out, "\tfield:u8 field_%u;\toffset:%u;\tsize:1;\tsigned:0;\n", i, 8 + i);
	ck_assert(!out.cut);
	ck_assert_int_eq(read_format(text, &format), 0);
	ck_assert(!format.complete);
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
	struct event_format format;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		ck_assert_msg(read_format(texts[i], &format) == -EBADMSG, "%s", texts[i]);
}

TEST(a_command_is_found_by_its_pid)
{
	static const struct {
		uint64_t pid;
		const char *command; /* "": it is not found */
	} cases[] = { { 123, "direct" }, { 12, "kworker/0:1 x" }, { 5, "last" }, { 2, "" }, { 4, "" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char saved[] = "1 systemd\n12 kworker/0:1 x\n123 direct\nx bad\n4 \n5 last\n", comm[64];

		ck_assert(text_find_command(saved, cases[i].pid, comm) == (*cases[i].command != '\0'));
		ck_assert_str_eq(comm, cases[i].command);
	}
}

TEST(only_instances_of_a_tail_have_a_pid)
{
	static const struct {
		const char *name;
		pid_t pid;
	} cases[] = {
		{ "userevctl-1234", 1234 }, { "userevctl-", 0 }, { "userevctl-12x", 0 }, { "userevctl-12345678901", 0 },
		{ "userevctl", 0 },	    { "", 0 },		 { "userevctl--5", 0 },	 { "myuserevctl-12", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_int_eq(text_instance_pid(cases[i].name), cases[i].pid);
}

TEST(a_name_with_a_slash_is_no_file_name)
{
	static const char *const names[] = { "foo", "mu.0", "...", "", ".", "..", "../../sched/sched_switch", "a/b" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_msg(text_is_file_name(names[i]) == (i < 3), "%s", names[i]);
}

TEST(stats_of_a_buffer_are_read_by_their_titles)
{
	static const char text[] = "entries: 6\noverrun: 7\ncommit overrun: 8\nbytes: 492\noldest event ts:  5.123\n"
				   "dropped events: 9\nread events: 10\n";
	struct buffer_stats stats = { 1, 2, 3 };

	text_read_stats("", &stats);
	text_read_stats("commit overrun: 8\nentries", &stats);
	ck_assert(stats.entries == 1 && stats.overrun == 2 && stats.dropped == 3);
	text_read_stats(text, &stats);
	ck_assert(stats.entries == 6 && stats.overrun == 7 && stats.dropped == 9);
}

TEST(snapshot_has_records_behind_its_head)
{
	static const struct {
		const char *text;
		bool has_records;
		uint64_t lost;
	} cases[] = {
		{ "# tracer: nop\n#\n#\n# * Snapshot is freed *\n#\n", false, 0 },
		{ "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/10   #P:1\n#\n   a-1 [000] 1.0: x: n=1\n",
		  true, 7 },
		{ "# entries-in-buffer/entries-written: 10/3\n a\n", true, 0 },
		{ "# tracer: osnoise\n a # entries-in-buffer/entries-written: 3/10\n", true, 0 },
		{ "", false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t lost;

		ck_assert_int_eq(text_read_snapshot(cases[i].text, &lost), cases[i].has_records);
		ck_assert_uint_eq(lost, cases[i].lost);
	}
}
