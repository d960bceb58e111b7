/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* Records that are written to a data file. */

/* The largest payload for ftrace with pages of 4096 bytes; payload_max of the protocol. */
enum { PAYLOAD_MAX = 4064, FAR_TOO_BIG = 4096, PAGE_BYTES = 4096 };

TEST(an_index_is_good_on_its_own_file_alone)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int with = data_open(O_WRONLY);
	_cleanup_(fd_closep) int without = data_open(O_WRONLY);

	ck_assert_int_eq(join(with, machine.text), 0);
	ck_assert_int_eq(join(machine.data, machine.other_text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(with, 0), 4);
	ck_assert_int_eq(write_value(with, 1), -ENOENT);
	ck_assert_int_eq(write_value(without, 0), -ENOENT);
	ck_assert_int_eq(write_value(machine.data, 0), -EBADF);
	ck_assert_uint_eq(count_records(machine.event), 1);
}
END_TEST

TEST(index_of_31_bits_is_unknown_and_of_32_invalid)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(write_value(machine.data, INT32_MAX), -ENOENT);
	ck_assert_int_eq(write_value(machine.data, -1), -EINVAL);
}
END_TEST

TEST(a_write_that_is_shorter_than_an_index_is_a_fault)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(write(machine.data, "123", 3), -1);
	ck_assert_int_eq(errno, EFAULT);
}
END_TEST

TEST(an_event_that_nobody_traces_is_a_bad_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(write_value(machine.data, 0), -EBADF);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(machine.data, 0), 4);
	switch_event(machine.event, false);
	ck_assert_int_eq(write_value(machine.data, 0), -EBADF);
}
END_TEST

TEST(payload_may_be_longer_than_fields_but_not_shorter)
{
	static const uint8_t payload[8] = { 0 };
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(write_record(machine.data, 0, payload, 3), -EINVAL); /* checked before the tracers */
	switch_event(machine.event, true);
	ck_assert_int_eq(write_record(machine.data, 0, payload, 0), -EINVAL);
	ck_assert_int_eq(write_record(machine.data, 0, payload, 3), -EINVAL);
	ck_assert_uint_eq(count_records(machine.event), 0);
	ck_assert_int_eq(write_record(machine.data, 0, payload, 4), 4);
	ck_assert_int_eq(write_record(machine.data, 0, payload, 8), 8);
	ck_assert_uint_eq(count_records(machine.event), 2);
}
END_TEST

TEST(one_write_and_one_writev_are_a_record_each)
{
	static const uint32_t record[] = { 0, 7 };
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write(machine.data, record, sizeof(record)), 8);
	ck_assert_int_eq(write(machine.data, record, sizeof(record)), 8);
	ck_assert_int_eq(write_value(machine.data, 0), 4);
	ck_assert_uint_eq(count_records(machine.event), 3);
}
END_TEST

/* In an event "u32 value; __rel_loc char[] s": the length is of `bytes`, which come after an offset. */
static int write_dynamic(const struct machine *machine, uint16_t offset, uint16_t length, const char *bytes, size_t n)
{
	uint8_t payload[32] = { 0 };
	uint32_t at = (uint32_t)length << 16 | offset;

	memcpy(payload + 4, &at, sizeof(at));
	memcpy(payload + 8, bytes, n);
	return write_record(machine->data, 0, payload, 8 + n);
}

TEST(dynamic_field_lies_in_payload_and_ends_with_zero)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[64];

	snprintf(text, sizeof(text), "%s u32 value; __rel_loc char[] s", machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
	ck_assert_int_eq(write_dynamic(&machine, 0, 9, "good", 5), -EBADF); /* only a tracer looks */
	switch_event(machine.event, true);
	ck_assert_int_eq(write_dynamic(&machine, 0, 5, "good", 5), 13);
	ck_assert_int_eq(write_dynamic(&machine, 2, 3, "good", 5), 13);
	ck_assert_int_eq(write_dynamic(&machine, 0, 1, "", 1), 9);
	ck_assert_int_eq(write_dynamic(&machine, 0, 0, "", 0), 8);
	ck_assert_uint_eq(count_records(machine.event), 4);
	ck_assert_int_eq(write_dynamic(&machine, 0, 6, "past", 5), -EFAULT);
	ck_assert_int_eq(write_dynamic(&machine, 1, 5, "past", 5), -EFAULT);
	ck_assert_int_eq(write_dynamic(&machine, 0xffff, 0xffff, "past", 5), -EFAULT);
	ck_assert_int_eq(write_dynamic(&machine, 0, 4, "open", 4), -EFAULT);
	ck_assert_int_eq(write_dynamic(&machine, 0, 3, "open", 5), -EFAULT);
	ck_assert_uint_eq(count_records(machine.event), 4);
}
END_TEST

TEST(dynamic_data_that_is_not_text_needs_no_zero)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	char text[64];

	snprintf(text, sizeof(text), "%s u32 value; __rel_loc u8[] s", machine.event);
	ck_assert_int_eq(join(machine.data, text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_dynamic(&machine, 0, 4, "open", 4), 12);
	ck_assert_int_eq(write_dynamic(&machine, 0, 5, "open", 4), -EFAULT);
}
END_TEST

TEST(records_larger_than_4064_bytes_vanish_silently)
{
	static const uint8_t payload[FAR_TOO_BIG];
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_record(machine.data, 0, payload, PAYLOAD_MAX), PAYLOAD_MAX);
	ck_assert_uint_eq(count_all_records(), 1);
	ck_assert_int_eq(write_record(machine.data, 0, payload, PAYLOAD_MAX + 1), PAYLOAD_MAX + 1);
	ck_assert_int_eq(write_record(machine.data, 0, payload, FAR_TOO_BIG), FAR_TOO_BIG);
	ck_assert_uint_eq(count_all_records(), 1);
}
END_TEST

#define SUB_BUFFER TRACEFS "/buffer_subbuf_size_kb"

/* Such fields are granted, but a record does not become larger. */
TEST(larger_parts_of_the_buffer_hold_no_larger_records)
{
	static const uint8_t payload[FAR_TOO_BIG];
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	int n;

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_file(SUB_BUFFER, "8"), 0);
	n = write_record(machine.data, 0, payload, PAYLOAD_MAX) +
	    write_record(machine.data, 0, payload, PAYLOAD_MAX + 1);
	ck_assert_uint_eq(count_all_records(), 1);
	ck_assert_int_eq(write_file(SUB_BUFFER, "4"), 0);
	ck_assert_int_eq(n, PAYLOAD_MAX + PAYLOAD_MAX + 1);
}
END_TEST

TEST(the_parts_of_the_buffer_are_as_large_as_they_are)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();

	ck_assert_int_eq(write_file(SUB_BUFFER, "8"), -ENOENT);
}
END_TEST

static int write_in_child(const struct machine *machine)
{
	return write_value(machine->data, 0) == 4 ? getpid() : -1;
}

TEST(record_belongs_to_its_writer)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	static const enum who whos[] = { ROOT, UNPRIVILEGED, NAMESPACE_ROOT };

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	for (size_t i = 0; i < ARRAY_SIZE(whos); i++) {
		int pid = as(whos[i], write_in_child(&machine));

		ck_assert_int_gt(pid, 0);
		ck_assert_int_eq(writer_of_last_record(machine.event), pid);
	}
	ck_assert_int_eq(write_value(machine.data, 0), 4);
	ck_assert_int_eq(writer_of_last_record(machine.event), getpid());
}
END_TEST

TEST(a_data_file_has_no_position_no_poll_and_no_memory)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	struct pollfd poll_fd = { .fd = machine.data, .events = POLLIN | POLLOUT | POLLPRI };
	char byte;

	ck_assert_int_eq(lseek(machine.data, 0, SEEK_SET), -1);
	ck_assert_int_eq(errno, ESPIPE);
	ck_assert_int_eq(poll(&poll_fd, 1, 0), 1); /* always, like any file without */
	ck_assert_int_eq(poll_fd.revents, POLLIN | POLLOUT);
	ck_assert_ptr_eq(mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, machine.data, 0), MAP_FAILED);
	ck_assert_int_eq(errno, ENODEV);
	ck_assert_int_eq(read(machine.data, &byte, 1), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

PROMISES("data file", EITHER(an_index_is_good_on_its_own_file_alone),
	 EITHER(index_of_31_bits_is_unknown_and_of_32_invalid),
	 EITHER(a_write_that_is_shorter_than_an_index_is_a_fault), EITHER(an_event_that_nobody_traces_is_a_bad_file),
	 EITHER(payload_may_be_longer_than_fields_but_not_shorter), EITHER(one_write_and_one_writev_are_a_record_each),
	 EITHER(dynamic_field_lies_in_payload_and_ends_with_zero), EITHER(dynamic_data_that_is_not_text_needs_no_zero),
	 EITHER(records_larger_than_4064_bytes_vanish_silently),
	 ENABLE_ADDRESS(larger_parts_of_the_buffer_hold_no_larger_records),
	 STATUS_PAGE(the_parts_of_the_buffer_are_as_large_as_they_are), EITHER(record_belongs_to_its_writer),
	 EITHER(a_data_file_has_no_position_no_poll_and_no_memory))
