/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* What the holder of a data file can do that was passed to him, where no guard keeps him from it; and how it is noticed. */

static const enum who strangers[] = { STRANGER, NAMESPACE_ROOT };

TEST(a_stranger_may_not_open_the_data_file_himself)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();

	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		ck_assert_int_eq(as(strangers[i], open(TRACEFS "/user_events_data", O_WRONLY) < 0 ? errno : 0), EACCES);
		ck_assert_int_eq(as(strangers[i], open(TRACEFS "/user_events_status", O_RDONLY) < 0 ? errno : 0),
				 EACCES);
	}
}
END_TEST

TEST(a_stranger_registers_new_events_on_a_file_that_he_was_given)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(as(STRANGER, join(stream, machine.text)), 0);
	ck_assert_int_eq(as(NAMESPACE_ROOT, join(stream, machine.other_text)), 1);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	ck_assert(event_exists(machine.other));
	/* They are there as long as the file. */
	fd_closep(&stream);
	ck_assert(machine.abi == ABI_STATUS_PAGE || eventually(!event_exists(machine.event)));
}
END_TEST

/* Joins what another has, and writes a record of it. */
static int forge(int stream, const char *text)
{
	int index = join(stream, text);

	return index < 0 ? index : write_value(stream, index);
}

TEST(a_stranger_forges_records_of_events_that_are_another_ones)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		ck_assert_int_eq(as(strangers[i], forge(stream, machine.text)), 4);
		ck_assert_uint_eq(count_records(machine.event), i + 1);
	}
}
END_TEST

/* Whether events exist is all that he learns. */
TEST(a_stranger_learns_by_deleting_whether_an_event_is_there_and_harms_none_that_is_held)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		ck_assert_int_eq(as(strangers[i], delete_event(stream, machine.event)), -EBUSY);
		ck_assert_int_eq(as(strangers[i], delete_event(stream, machine.other)), -ENOENT);
	}
	ck_assert(event_exists(machine.event));
}
END_TEST

TEST(a_stranger_can_not_unregister_what_is_in_the_memory_of_another)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	static uint64_t word;

	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	/* A fork has enablers of its own, which these are. */
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++)
		ck_assert_int_eq(as(strangers[i], disable(machine.data, &word, 0)), 0);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 1);
}
END_TEST

/* What the daemon asks of a stream: the first index that it has not given. */
static int probe(int stream, uint32_t next_index)
{
	return write(stream, &next_index, UAPI_INDEX_BYTES) < 0 ? -errno : 0;
}

TEST(the_first_unknown_index_is_no_entry_on_a_clean_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(probe(stream, 0), -ENOENT);
	ck_assert_int_eq(join(stream, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(probe(stream, 1), -ENOENT);
	ck_assert_int_eq(probe(stream, 0), -EINVAL);
	ck_assert_uint_eq(count_records(machine.event), 0);
}
END_TEST

TEST(what_a_stranger_registered_shows_at_the_first_unknown_index_and_nothing_is_recorded)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(STRANGER, join(stream, machine.other_text)), 1);
	ck_assert_int_eq(probe(stream, 1), -EINVAL);
	switch_event(machine.other, true);
	ck_assert_int_eq(probe(stream, 1), -EINVAL);
	ck_assert_uint_eq(count_records(machine.other), 0);
}
END_TEST

TEST(what_a_stranger_registered_without_fields_shows_too_but_may_be_recorded_where_it_is_traced)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(as(STRANGER, join(stream, machine.event)), 0);
	ck_assert_int_eq(probe(stream, 0), -EBADF);
	switch_event(machine.event, true);
	ck_assert_int_eq(probe(stream, 0), machine.abi == ABI_STATUS_PAGE ? -EFAULT : 0);
	ck_assert_uint_eq(count_records(machine.event), machine.abi == ABI_STATUS_PAGE ? 0 : 1);
}
END_TEST

/* An event that the stream has already leaves no trace on it: it is the same index. */
TEST(a_stranger_who_registers_what_the_file_has_is_not_seen)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(STRANGER, join(stream, machine.text)), 0);
	ck_assert_int_eq(probe(stream, 1), -ENOENT);
}
END_TEST

/* The host's root in a container is kept out by nothing but a guard. */
TEST(root_reopens_a_file_that_he_was_given_and_a_stranger_does_not)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", stream);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++)
		ck_assert_int_eq(as(strangers[i], open(path, O_WRONLY) < 0 ? errno : 0), EACCES);
	ck_assert_int_eq(as(ROOT, open(path, O_WRONLY) < 0 ? errno : 0), 0);
	/* It is another file: none of its events. */
	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(ROOT, write_value(open(path, O_WRONLY), 0)), -ENOENT);
}
END_TEST

PROMISES("strangers", EITHER(a_stranger_may_not_open_the_data_file_himself),
	 EITHER(a_stranger_registers_new_events_on_a_file_that_he_was_given),
	 EITHER(a_stranger_forges_records_of_events_that_are_another_ones),
	 EITHER(a_stranger_learns_by_deleting_whether_an_event_is_there_and_harms_none_that_is_held),
	 ENABLE_ADDRESS(a_stranger_can_not_unregister_what_is_in_the_memory_of_another),
	 EITHER(the_first_unknown_index_is_no_entry_on_a_clean_file),
	 EITHER(what_a_stranger_registered_shows_at_the_first_unknown_index_and_nothing_is_recorded),
	 EITHER(what_a_stranger_registered_without_fields_shows_too_but_may_be_recorded_where_it_is_traced),
	 EITHER(a_stranger_who_registers_what_the_file_has_is_not_seen),
	 EITHER(root_reopens_a_file_that_he_was_given_and_a_stranger_does_not))
