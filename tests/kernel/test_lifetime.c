/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* How long an event is there, and who may end it. */

TEST(an_event_goes_with_the_last_copy_of_its_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	struct person holder;

	ck_assert_int_eq(join(stream, machine.text), 0);
	holder = companion_start();
	fd_closep(&stream);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	companion_end(&holder);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

TEST(an_event_goes_with_its_last_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int first = data_open(O_WRONLY);
	_cleanup_(fd_closep) int second = data_open(O_WRONLY);

	ck_assert_int_eq(join(first, machine.text), 0);
	ck_assert_int_eq(join(second, machine.text), 0);
	fd_closep(&first);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	ck_assert_int_eq(delete_event(machine.data, machine.event), -EBUSY);
	fd_closep(&second);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

/* Registers in a process of its own, of which the file is closed at once: 1 if the event lives on. */
static int hold_by_enabler_alone(struct machine *machine)
{
	uint64_t word = 0;
	int stream = data_open(O_WRONLY);

	if (enable(stream, machine->text, &word, 0) != 0)
		return -1;
	close(stream);
	let_the_kernel_catch_up(machine);
	return event_exists(machine->event);
}

TEST(an_enabler_holds_its_event_without_a_file_and_dies_with_its_process)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(as(ROOT, hold_by_enabler_alone(&machine)), 1);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

TEST(an_enabler_is_no_hindrance_to_another_file_that_goes)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t word = 0;

	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	ck_assert_int_eq(join(stream, machine.text), 0);
	fd_closep(&stream);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 1);
	ck_assert_int_eq(write_value(machine.data, 0), 4);
}
END_TEST

/* A charge has to last as long. */
TEST(an_event_that_is_on_stays_until_it_is_switched_off)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	switch_event(machine.event, true);
	fd_closep(&stream);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	ck_assert_int_eq(delete_event(machine.data, machine.event), -EBUSY);
	switch_event(machine.event, false);
	if (machine.abi == ABI_STATUS_PAGE)
		ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

TEST(a_name_is_free_for_other_fields_once_its_event_has_gone)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	char text[64];

	snprintf(text, sizeof(text), "%s u64 wide", machine.event);
	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(join(machine.data, text), -EADDRINUSE);
	fd_closep(&stream);
	ck_assert(eventually(join(machine.data, text) == 0));
}
END_TEST

TEST(an_event_outlives_its_files_until_somebody_deletes_it)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint32_t bit = 0, again = 0;

	ck_assert_int_eq(register_for_bit(stream, machine.text, &bit), 0);
	ck_assert_int_eq(delete_event(machine.data, machine.event), -EBUSY);
	fd_closep(&stream);
	ck_assert(event_exists(machine.event));
	stream = data_open(O_WRONLY);
	ck_assert_int_eq(register_for_bit(stream, machine.text, &again), 0);
	ck_assert_uint_eq(again, bit);
	fd_closep(&stream);
	ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(!event_exists(machine.event));
	ck_assert_int_eq(delete_event(machine.data, machine.event), -ENOENT);
}
END_TEST

/* An idle event of the daemon's may be gone. */
TEST(anyone_with_a_data_file_deletes_an_event_that_nobody_holds)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
	ck_assert_int_eq(as(STRANGER, delete_event(machine.data, machine.event)), -EBUSY);
	fd_closep(&stream);
	ck_assert_int_eq(as(STRANGER, delete_event(machine.data, machine.event)), 0);
	ck_assert_int_eq(as(NAMESPACE_ROOT, delete_event(machine.data, machine.other)), 0);
	ck_assert(!event_exists(machine.event));
	ck_assert(!event_exists(machine.other));
}
END_TEST

TEST(a_deleted_event_may_be_made_again_with_other_fields_and_another_bit)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t wide = 1;
	uint32_t bit;
	char text[64];

	snprintf(text, sizeof(text), "%s u64 wide", machine.event);
	ck_assert_int_eq(register_for_bit(stream, machine.text, &bit), 0);
	fd_closep(&stream);
	ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert_int_eq(register_for_bit(machine.data, text, &bit), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(machine.data, 0), -EINVAL);
	ck_assert_int_eq(write_record(machine.data, 0, &wide, sizeof(wide)), 8);
}
END_TEST

TEST(deleting_is_refused_as_long_as_anything_holds_the_event)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t word = 0;

	ck_assert_int_eq(delete_event(machine.data, machine.event), -ENOENT);
	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(delete_event(stream, machine.event), -EBUSY);
	ck_assert_int_eq(as(STRANGER, delete_event(machine.data, machine.event)), -EBUSY);
	if (machine.abi == ABI_STATUS_PAGE)
		return;
	ck_assert_int_eq(enable(stream, machine.text, &word, 0), 0);
	fd_closep(&stream);
	let_the_kernel_catch_up(&machine);
	ck_assert_int_eq(delete_event(machine.data, machine.event), -EBUSY);
}
END_TEST

static int enable_persistent(const struct machine *machine)
{
	static uint64_t word;

	return enable_with(machine->data, machine->text, UAPI_PERSIST, &word, 0);
}

TEST(a_persistent_event_wants_a_capability_to_be_made)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(as(STRANGER, enable_persistent(&machine)), -EPERM);
	ck_assert_int_eq(as(NAMESPACE_ROOT, enable_persistent(&machine)), -EPERM);
	ck_assert_int_eq(as(POWERLESS_ROOT, enable_persistent(&machine)), -EPERM);
	ck_assert(!event_exists(machine.event));
	ck_assert_int_eq(as(ROOT, enable_persistent(&machine)), 0);
	ck_assert(event_exists(machine.event));
	/* The file has it as well, on which it was. */
	fd_closep(&machine.data);
	machine.data = data_open(O_RDWR);
	ck_assert(eventually(delete_event(machine.data, machine.event) == 0));
}
END_TEST

TEST(a_persistent_event_outlives_everybody_and_wants_a_capability_to_be_deleted)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t word = 0;

	ck_assert_int_eq(enable_with(stream, machine.text, UAPI_PERSIST, &word, 0), 0);
	ck_assert_int_eq(delete_event(machine.data, machine.event), -EBUSY);
	ck_assert_int_eq(disable(stream, &word, 0), 0);
	fd_closep(&stream);
	let_the_kernel_catch_up(&machine);
	ck_assert(event_exists(machine.event));
	ck_assert(eventually(as(STRANGER, delete_event(machine.data, machine.event)) == -EPERM));
	ck_assert_int_eq(as(NAMESPACE_ROOT, delete_event(machine.data, machine.event)), -EPERM);
	ck_assert_int_eq(as(POWERLESS_ROOT, delete_event(machine.data, machine.event)), -EPERM);
	ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(!event_exists(machine.event));
}
END_TEST

/* The first registration decides. */
TEST(an_event_that_is_there_is_not_made_persistent_nor_the_other_way)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t words[2] = { 0 };

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(enable_with(stream, machine.text, UAPI_PERSIST, &words[0], 0), 0);
	ck_assert_int_eq(enable_with(stream, machine.other_text, UAPI_PERSIST, &words[1], 0), 1);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
	ck_assert_int_eq(disable(stream, &words[0], 0), 0);
	ck_assert_int_eq(disable(stream, &words[1], 0), 0);
	fd_closep(&stream);
	ck_assert(eventually(!event_exists(machine.event)));
	ck_assert(event_exists(machine.other));
	ck_assert(eventually(delete_event(machine.data, machine.other) == 0));
}
END_TEST

PROMISES("lifetime", ENABLE_ADDRESS(an_event_goes_with_the_last_copy_of_its_file),
	 ENABLE_ADDRESS(an_event_goes_with_its_last_file),
	 ENABLE_ADDRESS(an_enabler_holds_its_event_without_a_file_and_dies_with_its_process),
	 ENABLE_ADDRESS(an_enabler_is_no_hindrance_to_another_file_that_goes),
	 EITHER(an_event_that_is_on_stays_until_it_is_switched_off),
	 ENABLE_ADDRESS(a_name_is_free_for_other_fields_once_its_event_has_gone),
	 STATUS_PAGE(an_event_outlives_its_files_until_somebody_deletes_it),
	 STATUS_PAGE(anyone_with_a_data_file_deletes_an_event_that_nobody_holds),
	 STATUS_PAGE(a_deleted_event_may_be_made_again_with_other_fields_and_another_bit),
	 EITHER(deleting_is_refused_as_long_as_anything_holds_the_event),
	 ENABLE_ADDRESS(a_persistent_event_wants_a_capability_to_be_made),
	 ENABLE_ADDRESS(a_persistent_event_outlives_everybody_and_wants_a_capability_to_be_deleted),
	 ENABLE_ADDRESS(an_event_that_is_there_is_not_made_persistent_nor_the_other_way))
