/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/kernel/user_events.h"

/* The files of tracefs that our programs parse, and how tracers use events. */

enum { TEXT_BYTES = 65536 };

static char file[TEXT_BYTES];

static const char *read_of_event(const char *event, const char *name)
{
	char path[192];

	event_path(event, name, path, sizeof(path));
	read_file(path, file, sizeof(file));
	return file;
}

static void expect_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);
	size_t length = strlen(line);

	ck_assert_msg(at && (at == text || at[-1] == '\n') && at[length] == '\n', "no line '%s' in\n%s", line, text);
}

/* As perf does; the fd. */
static int use_by_perf(const char *event)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = strtoull(read_of_event(event, "id"), NULL, 10),
		.sample_period = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	ck_assert_msg(fd >= 0, "perf_event_open: %s", strerror(errno));
	return fd;
}

TEST(status_has_a_line_for_each_event_and_sums)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	bool newer = machine.abi == ABI_ENABLE_ADDRESS;
	char expected[256];

	read_file(TRACEFS "/user_events_status", file, sizeof(file));
	ck_assert_str_eq(file, newer ? "\nActive: 0\nBusy: 0\n" : "\nActive: 0\nBusy: 0\nMax: 32768\n");
	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	read_file(TRACEFS "/user_events_status", file, sizeof(file));
	snprintf(expected, sizeof(expected), "%s%s # Used by ftrace\n\nActive: 1\nBusy: 1\n%s",
		 newer ? "" : "1:", machine.event, newer ? "" : "Max: 32768\n");
	ck_assert_str_eq(file, expected);
}
END_TEST

static void expect_users(const char *event, const char *users)
{
	char line[128];

	status_line(event, line, sizeof(line));
	ck_assert_str_eq(line + strcspn(line, " "), users);
}

TEST(the_status_names_the_tracers)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	int perf, more;

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	expect_users(machine.event, "");
	perf = use_by_perf(machine.event);
	expect_users(machine.event, " # Used by perf");
	ck_assert_int_eq(write_value(machine.data, 0), 4);
	switch_event(machine.event, true);
	more = use_by_perf(machine.event);
	expect_users(machine.event, " # Used by ftrace perf");
	close(perf);
	expect_users(machine.event, " # Used by ftrace perf");
	close(more);
	expect_users(machine.event, " # Used by ftrace");
	switch_event(machine.event, false);
	expect_users(machine.event, "");
}
END_TEST

TEST(the_sums_count_events_and_those_that_are_used)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(join(machine.data, machine.other_text), 1);
	switch_event(machine.other, true);
	ck_assert_int_eq(status_number("Active: "), 2);
	ck_assert_int_eq(status_number("Busy: "), 1);
}
END_TEST

TEST(the_format_has_the_fields_after_eight_common_bytes)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[128], line[128];
	unsigned long id;

	snprintf(text, sizeof(text), "%s u32 a; s64 b; unsigned short c; struct thing d 20; __data_loc char[] e",
		 machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
	id = strtoul(read_of_event(machine.event, "id"), NULL, 10);
	read_of_event(machine.event, "format");
	snprintf(line, sizeof(line), "name: %s", machine.event);
	expect_line(file, line);
	snprintf(line, sizeof(line), "ID: %lu", id);
	expect_line(file, line);
	expect_line(file, "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;");
	expect_line(file, "\tfield:u32 a;\toffset:8;\tsize:4;\tsigned:0;");
	expect_line(file, "\tfield:s64 b;\toffset:12;\tsize:8;\tsigned:1;");
	expect_line(file, "\tfield:unsigned short c;\toffset:20;\tsize:2;\tsigned:0;");
	expect_line(file, "\tfield:struct thing d;\toffset:22;\tsize:20;\tsigned:1;");
	expect_line(file, "\tfield:__data_loc char[] e;\toffset:42;\tsize:4;\tsigned:1;");
	expect_line(file, "print fmt: \"a=%u b=%lld c=%u d=%llu e=%s\", REC->a, REC->b, REC->c, REC->d, __get_str(e)");
}
END_TEST

/* The kernel never sets the value shown here: only the size is valid. */
TEST(number_in_array_brackets_means_nothing)
{
	static const struct {
		const char *before;
		const char *after;
	} lines[] = {
		{ "\n\tfield:char fixed[", "];\toffset:8;\tsize:16;\tsigned:1;\n" },
		{ "\n\tfield:__rel_loc char dynamic[", "];\toffset:24;\tsize:4;\tsigned:1;\n" },
	};
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[128];

	snprintf(text, sizeof(text), "%s char[16] fixed; __rel_loc char[] dynamic", machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
	read_of_event(machine.event, "format");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *at = strstr(file, lines[i].before);

		ck_assert_msg(at != NULL, "%s", file);
		at += strlen(lines[i].before);
		at += strspn(at, "-0123456789");
		ck_assert_msg(strncmp(at, lines[i].after, strlen(lines[i].after)) == 0, "%s", file);
	}
}
END_TEST

TEST(enable_file_switches_and_shows_event)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char line[64];

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_str_eq(read_of_event(machine.event, "enable"), "0\n");
	switch_event(machine.event, true);
	ck_assert_str_eq(read_of_event(machine.event, "enable"), "1\n");
	snprintf(line, sizeof(line), "user_events:%s", machine.event);
	read_file(TRACEFS "/set_event", file, sizeof(file));
	expect_line(file, line);
	snprintf(line, sizeof(line), "!user_events:%s", machine.event);
	ck_assert_int_eq(write_file(TRACEFS "/set_event", line), 0);
	ck_assert_str_eq(read_of_event(machine.event, "enable"), "0\n");
}
END_TEST

TEST(the_directory_of_an_event_goes_with_it)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	char path[192];

	ck_assert_int_eq(join(stream, machine.text), 0);
	event_path(machine.event, "", path, sizeof(path));
	ck_assert_int_eq(access(path, F_OK), 0);
	fd_closep(&stream);
	if (machine.abi == ABI_STATUS_PAGE)
		ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(eventually(access(path, F_OK) < 0));
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

TEST(an_instance_uses_an_event_for_itself)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char enable[192];
	int n;

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(mkdir(TRACEFS "/instances/promise", 0700), 0);
	snprintf(enable, sizeof(enable), TRACEFS "/instances/promise/events/user_events/%s/enable", machine.event);
	ck_assert_int_eq(write_file(enable, "1"), 0);
	expect_users(machine.event, " # Used by ftrace");
	ck_assert_str_eq(read_of_event(machine.event, "enable"), "0\n");
	n = write_value(machine.data, 0);
	ck_assert_int_eq(write_file(enable, "0"), 0);
	ck_assert_int_eq(rmdir(TRACEFS "/instances/promise"), 0);
	ck_assert_int_eq(n, 4);
	ck_assert_uint_eq(count_records(machine.event), 0);
	expect_users(machine.event, "");
}
END_TEST

TEST(dynamic_events_lists_and_makes_events_that_stay)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	char line[96];

	ck_assert_int_eq(join(stream, machine.text), 0);
	snprintf(line, sizeof(line), "u:%s", machine.other_text);
	ck_assert_int_eq(write_file(TRACEFS "/dynamic_events", line), 0);
	read_file(TRACEFS "/dynamic_events", file, sizeof(file));
	expect_line(file, line);
	snprintf(line, sizeof(line), "u:%s", machine.text);
	expect_line(file, line);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
	ck_assert_int_eq(delete_event(machine.data, machine.other), -EBUSY);
	fd_closep(&stream);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.other));
	ck_assert(eventually(delete_event(machine.data, machine.other) == 0));
}
END_TEST

/* The newer kernel reuses the number of a deleted event; a reader of the buffer cannot tell the two apart. */
TEST(records_of_deleted_event_may_look_like_successors)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(stream, 0), 4);
	switch_event(machine.event, false);
	fd_closep(&stream);
	if (machine.abi == ABI_STATUS_PAGE)
		ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(eventually(!event_exists(machine.event)));
	ck_assert_int_eq(join(machine.data, machine.other_text), 0);
	ck_assert_uint_eq(count_all_records(), 1);
	ck_assert_uint_eq(count_records(machine.other), machine.abi == ABI_STATUS_PAGE ? 0 : 1);
}
END_TEST

/* The directory of a multi-format event. Its suffix is a growing number. */
static unsigned long number_of(const char *event, char *ret, size_t size)
{
	char *end, *at;
	unsigned long number;

	read_file(TRACEFS "/user_events_status", file, sizeof(file));
	at = strstr(file, event);
	ck_assert_ptr_nonnull(at);
	at[strcspn(at, " \n")] = '\0';
	ck_assert_uint_eq(at[strlen(event)], '.');
	number = strtoul(at + strlen(event) + 1, &end, 16);
	ck_assert_uint_eq(*end, '\0');
	string_copy(ret, size, at);
	return number;
}

TEST(multi_format_event_has_numbered_name_and_own_group)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t words[2] = { 0 };
	char name[64], line[96];
	unsigned long first;

	ck_assert_int_eq(enable_with(stream, machine.text, UAPI_MULTI_FORMAT, &words[0], 0), 0);
	ck_assert_int_eq(enable_with(stream, machine.other_text, UAPI_MULTI_FORMAT, &words[1], 0), 1);
	number_of(machine.other, name, sizeof(name));
	first = number_of(machine.event, name, sizeof(name));
	ck_assert_str_eq(read_of_event(name, "enable"), "0\n");
	snprintf(line, sizeof(line), "name: %s", name);
	expect_line(read_of_event(name, "format"), line);
	switch_event(name, true);
	ck_assert_uint_eq(words[0], 1);
	ck_assert_uint_eq(words[1], 0);
	ck_assert_int_eq(write_value(stream, 0), 4);
	ck_assert_uint_eq(count_records(name), 1);
	expect_users(name, " # Used by ftrace");
	switch_event(name, false);
	ck_assert_int_eq(disable(stream, &words[0], 0), 0);
	fd_closep(&stream);
	ck_assert(eventually(!event_exists(name)));
	/* A new file with the same name is another file. */
	ck_assert_int_eq(enable_with(machine.data, machine.text, UAPI_MULTI_FORMAT, &words[0], 0), 0);
	ck_assert_uint_gt(number_of(machine.event, name, sizeof(name)), first);
}
END_TEST

PROMISES("tracefs", EITHER(status_has_a_line_for_each_event_and_sums), EITHER(the_status_names_the_tracers),
	 EITHER(the_sums_count_events_and_those_that_are_used),
	 EITHER(the_format_has_the_fields_after_eight_common_bytes), EITHER(number_in_array_brackets_means_nothing),
	 EITHER(enable_file_switches_and_shows_event), EITHER(the_directory_of_an_event_goes_with_it),
	 EITHER(an_instance_uses_an_event_for_itself), EITHER(dynamic_events_lists_and_makes_events_that_stay),
	 EITHER(records_of_deleted_event_may_look_like_successors),
	 ENABLE_ADDRESS(multi_format_event_has_numbered_name_and_own_group))
