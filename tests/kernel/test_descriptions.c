/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/user_events.h"

/* Descriptions that the kernel accepts, and which of them are the same event. */

enum { TEXT_BYTES = 4096 };

/* Whether an event with these fields can be registered: 0, or a negative errno. */
static int try_fields(const struct machine *machine, const char *fields)
{
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	char text[TEXT_BYTES];
	int r;

	snprintf(text, sizeof(text), "%s %s", machine->event, fields);
	r = join(stream, text);
	fd_closep(&stream);
	/* The next registration has other fields. */
	if (r == 0 && machine->abi == ABI_STATUS_PAGE)
		ck_assert_int_eq(delete_event(machine->data, machine->event), 0);
	else if (r == 0)
		ck_assert(eventually(!event_exists(machine->event)));
	return r;
}

static int try_name(const char *text)
{
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);

	return join(stream, text);
}

TEST(types_of_a_fixed_size_are_known)
{
	static const char *const known[] = {
		"s8 a",
		"u8 a",
		"s16 a",
		"u16 a",
		"s32 a",
		"u32 a",
		"s64 a",
		"u64 a",
		"int a",
		"short a",
		"char a",
		"unsigned int a",
		"unsigned short a",
		"unsigned char a",
		"char[16] a",
		"unsigned char[16] a",
		"__rel_loc char[] a",
		"__data_loc char[] a",
		"__rel_loc u8[] a",
		"struct whatever a 20",
		"u32 a; u64 b; struct x c 3; __rel_loc char[] d",
	};
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		ck_assert_msg(try_fields(&machine, known[i]) == 0, "%s", known[i]);
}
END_TEST

TEST(type_with_a_size_of_the_processor_is_refused)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(try_fields(&machine, "long a"), -EINVAL);
	ck_assert_int_eq(try_fields(&machine, "unsigned long a"), -EINVAL);
	ck_assert_int_eq(try_fields(&machine, "size_t a"), -EINVAL);
	ck_assert_int_eq(try_fields(&machine, "void* a"), -EINVAL);
	ck_assert(!event_exists(machine.event));
}
END_TEST

TEST(invalid_fields_are_refused)
{
	static const char *const unknown[] = {
		"u32",	    "float a",	 "u32 a 4", "struct a", "struct whatever a", "struct whatever a 0",
		"char[] a", "char[0] a",
	};
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		ck_assert_msg(try_fields(&machine, unknown[i]) == -EINVAL, "%s", unknown[i]);
	ck_assert(!event_exists(machine.event));
}
END_TEST

TEST(a_fixed_array_has_at_most_1024_elements)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(try_fields(&machine, "char[1024] a"), 0);
	ck_assert_int_eq(try_fields(&machine, "char[1025] a"), -EINVAL);
	ck_assert_int_eq(try_fields(&machine, "u32[4] a"), -EINVAL);
}
END_TEST

TEST(a_description_has_511_characters_and_no_more)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char fields[UAPI_DESCRIPTION_BYTES + 1];
	size_t before = strlen(machine.event) + 1;
	size_t most = UAPI_DESCRIPTION_BYTES - 1 - before;

	memset(fields, 'a', sizeof(fields));
	memcpy(fields, "u32 ", 4);
	fields[most] = '\0';
	ck_assert_int_eq(try_fields(&machine, fields), 0);
	fields[most] = 'a';
	fields[most + 1] = '\0';
	ck_assert_int_eq(try_fields(&machine, fields), -EINVAL);
}
END_TEST

TEST(a_name_alone_is_an_event_without_fields)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.event), 0);
	ck_assert_int_eq(write_record(machine.data, 0, NULL, 0), -EBADF);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_record(machine.data, 0, "x", 1), 1);
	ck_assert_uint_eq(count_records(machine.event), 1);
	/* A tracer of the older kernel refuses an empty payload. */
	ck_assert_int_eq(write_record(machine.data, 0, NULL, 0), machine.abi == ABI_STATUS_PAGE ? -EFAULT : 0);
	ck_assert_uint_eq(count_records(machine.event), machine.abi == ABI_STATUS_PAGE ? 1 : 2);
}
END_TEST

TEST(a_semicolon_with_and_without_a_space_is_the_same)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[64];

	snprintf(text, sizeof(text), "%s u32 a; u32 b", machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
	snprintf(text, sizeof(text), "%s u32 a;u32 b", machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
}
END_TEST

TEST(a_text_flag_is_refused)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[64];

	snprintf(text, sizeof(text), "%s:flag u32 value", machine.event);
	ck_assert_int_eq(try_name(text), -EINVAL);
	ck_assert(!event_exists(machine.event));
}
END_TEST

TEST(a_text_flag_is_ignored)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[64];

	snprintf(text, sizeof(text), "%s:flag,another u32 value", machine.event);
	ck_assert_int_eq(try_name(text), 0);
	ck_assert(event_exists(machine.event));
}
END_TEST

/* The kernel keeps the fields of the first registration: the daemon has to compare. */
TEST(the_same_name_with_other_fields_joins_in_silence)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	uint32_t bit = 0, same = 0;
	uint64_t value = 1;
	char text[64];

	ck_assert_int_eq(register_for_bit(machine.data, machine.text, &bit), 0);
	snprintf(text, sizeof(text), "%s u64 other", machine.event);
	ck_assert_int_eq(register_for_bit(stream, text, &same), 0);
	ck_assert_uint_eq(same, bit);
	ck_assert_int_eq(register_for_bit(stream, machine.event, &same), 0);
	ck_assert_uint_eq(same, bit);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_record(stream, 0, &value, 4), 4);
}
END_TEST

TEST(the_same_name_with_other_fields_is_in_use)
{
	static const char *const others[] = { "u64 value", "u32 other", "u32 value; u32 more", "s32 value", "" };
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", machine.event, others[i]);
		ck_assert_msg(try_name(text) == -EADDRINUSE, "%s", others[i]);
	}
	ck_assert_int_eq(try_name(machine.event), -EADDRINUSE);
	ck_assert_int_eq(try_name(machine.text), 0);
}
END_TEST

TEST(multi_format_name_is_an_event_for_each_format)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	uint64_t page[4] = { 0 };
	char text[64];

	snprintf(text, sizeof(text), "%s u64 wide", machine.event);
	ck_assert_int_eq(enable_with(stream, machine.text, UAPI_MULTI_FORMAT, page, 0), 0);
	ck_assert_int_eq(enable_with(stream, text, UAPI_MULTI_FORMAT, page, 1), 1);
	ck_assert_int_eq(enable_with(stream, machine.text, UAPI_MULTI_FORMAT, page, 2), 0);
	ck_assert_int_eq(status_number("Active: "), 2);
	ck_assert_int_eq(enable(stream, machine.text, page, 3), 2);
	ck_assert_int_eq(status_number("Active: "), 3);
	ck_assert_int_eq(enable(stream, text, page, 4), -EADDRINUSE);
	/* A format may be added beside a plain event. */
	snprintf(text, sizeof(text), "%s u8 narrow", machine.event);
	ck_assert_int_eq(enable_with(stream, text, UAPI_MULTI_FORMAT, page, 4), 3);
	ck_assert_int_eq(status_number("Active: "), 4);
}
END_TEST

PROMISES("descriptions", EITHER(types_of_a_fixed_size_are_known), EITHER(type_with_a_size_of_the_processor_is_refused),
	 EITHER(invalid_fields_are_refused), EITHER(a_fixed_array_has_at_most_1024_elements),
	 EITHER(a_description_has_511_characters_and_no_more), EITHER(a_name_alone_is_an_event_without_fields),
	 EITHER(a_semicolon_with_and_without_a_space_is_the_same), ENABLE_ADDRESS(a_text_flag_is_refused),
	 STATUS_PAGE(a_text_flag_is_ignored), STATUS_PAGE(the_same_name_with_other_fields_joins_in_silence),
	 ENABLE_ADDRESS(the_same_name_with_other_fields_is_in_use),
	 ENABLE_ADDRESS(multi_format_name_is_an_event_for_each_format))
