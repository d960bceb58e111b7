/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* What a client can do with its data file where there is no guard, and how the daemon notices. */

static const enum who unprivileged[] = { UNPRIVILEGED, NAMESPACE_ROOT };

TEST(data_file_is_closed_to_unprivileged)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();

	for (size_t i = 0; i < ARRAY_SIZE(unprivileged); i++) {
		ck_assert_int_eq(as(unprivileged[i], open(TRACEFS "/user_events_data", O_WRONLY) < 0 ? errno : 0),
				 EACCES);
		ck_assert_int_eq(as(unprivileged[i], open(TRACEFS "/user_events_status", O_RDONLY) < 0 ? errno : 0),
				 EACCES);
	}
}
END_TEST

TEST(client_registers_new_events_on_a_passed_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(as(UNPRIVILEGED, join(stream, machine.text)), 0);
	ck_assert_int_eq(as(NAMESPACE_ROOT, join(stream, machine.other_text)), 1);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	ck_assert(event_exists(machine.other));
	/* The events live as long as the file. */
	fd_closep(&stream);
	ck_assert(machine.abi == ABI_STATUS_PAGE || eventually(!event_exists(machine.event)));
}
END_TEST

/* Joins an event of another program, and writes a record of it. */
static int forge(int stream, const char *text)
{
	int index = join(stream, text);

	return index < 0 ? index : write_value(stream, index);
}

TEST(client_forges_records_of_other_programs)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	for (size_t i = 0; i < ARRAY_SIZE(unprivileged); i++) {
		ck_assert_int_eq(as(unprivileged[i], forge(stream, machine.text)), 4);
		ck_assert_uint_eq(count_records(machine.event), i + 1);
	}
}
END_TEST

/* The holder learns only whether events exist. */
TEST(client_deletes_no_held_event_but_learns_of_it)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(unprivileged); i++) {
		ck_assert_int_eq(as(unprivileged[i], delete_event(stream, machine.event)), -EBUSY);
		ck_assert_int_eq(as(unprivileged[i], delete_event(stream, machine.other)), -ENOENT);
	}
	ck_assert(event_exists(machine.event));
}
END_TEST

TEST(client_cannot_unregister_bits_of_other_processes)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	static uint64_t word;

	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	/* These are the fork's own enablers. */
	for (size_t i = 0; i < ARRAY_SIZE(unprivileged); i++)
		ck_assert_int_eq(as(unprivileged[i], disable(machine.data, &word, 0)), 0);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 1);
}
END_TEST

/* The daemon's question about a stream: its first index that the daemon has not assigned. */
static int probe(int stream, uint32_t next_index)
{
	return write(stream, &next_index, UAPI_INDEX_BYTES) < 0 ? -errno : 0;
}

TEST(first_unknown_index_is_enoent_on_a_clean_file)
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

TEST(foreign_event_shows_at_first_unknown_index)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, join(stream, machine.other_text)), 1);
	ck_assert_int_eq(probe(stream, 1), -EINVAL);
	switch_event(machine.other, true);
	ck_assert_int_eq(probe(stream, 1), -EINVAL);
	ck_assert_uint_eq(count_records(machine.other), 0);
}
END_TEST

TEST(foreign_event_without_fields_shows_too)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(as(UNPRIVILEGED, join(stream, machine.event)), 0);
	ck_assert_int_eq(probe(stream, 0), -EBADF);
	switch_event(machine.event, true);
	ck_assert_int_eq(probe(stream, 0), machine.abi == ABI_STATUS_PAGE ? -EFAULT : 0);
	ck_assert_uint_eq(count_records(machine.event), machine.abi == ABI_STATUS_PAGE ? 0 : 1);
}
END_TEST

/* Registering an event that the stream has already returns the same index, so it cannot be noticed. */
TEST(registering_an_event_of_the_file_is_not_noticed)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, join(stream, machine.text)), 0);
	ck_assert_int_eq(probe(stream, 1), -ENOENT);
}
END_TEST

/* Only a guard stops root of the host in a container. */
TEST(only_root_reopens_a_passed_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", stream);
	for (size_t i = 0; i < ARRAY_SIZE(unprivileged); i++)
		ck_assert_int_eq(as(unprivileged[i], open(path, O_WRONLY) < 0 ? errno : 0), EACCES);
	ck_assert_int_eq(as(ROOT, open(path, O_WRONLY) < 0 ? errno : 0), 0);
	/* This is another open file, which has none of the stream's events. */
	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(as(ROOT, write_value(open(path, O_WRONLY), 0)), -ENOENT);
}
END_TEST

PROMISES("client_rights", EITHER(data_file_is_closed_to_unprivileged),
	 EITHER(client_registers_new_events_on_a_passed_file), EITHER(client_forges_records_of_other_programs),
	 EITHER(client_deletes_no_held_event_but_learns_of_it),
	 ENABLE_ADDRESS(client_cannot_unregister_bits_of_other_processes),
	 EITHER(first_unknown_index_is_enoent_on_a_clean_file), EITHER(foreign_event_shows_at_first_unknown_index),
	 EITHER(foreign_event_without_fields_shows_too), EITHER(registering_an_event_of_the_file_is_not_noticed),
	 EITHER(only_root_reopens_a_passed_file))
