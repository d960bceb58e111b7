/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* How long an event lives, and which processes may delete it. */

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

/* Registers in another process, which closes its file at once. 1 if the event survives. */
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

TEST(enabler_holds_event_until_its_process_exits)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(as(ROOT, hold_by_enabler_alone(&machine)), 1);
	ck_assert(eventually(!event_exists(machine.event)));
}
END_TEST

TEST(enabler_does_not_delay_close_of_another_file)
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

/* So a charge has to last as long as the file. */
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

TEST(name_is_free_for_other_fields_after_its_event)
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

TEST(event_outlives_its_files_until_deleted)
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

/* The kernel may have deleted an idle event of the daemon. */
TEST(data_file_is_enough_to_delete_an_idle_event)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
	ck_assert_int_eq(as(UNPRIVILEGED, delete_event(machine.data, machine.event)), -EBUSY);
	fd_closep(&stream);
	ck_assert_int_eq(as(UNPRIVILEGED, delete_event(machine.data, machine.event)), 0);
	ck_assert_int_eq(as(NAMESPACE_ROOT, delete_event(machine.data, machine.other)), 0);
	ck_assert(!event_exists(machine.event));
	ck_assert(!event_exists(machine.other));
}
END_TEST

TEST(deleted_event_may_return_with_other_fields_and_bit)
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

TEST(deleting_a_held_event_is_refused)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	uint64_t word = 0;

	ck_assert_int_eq(delete_event(machine.data, machine.event), -ENOENT);
	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(delete_event(stream, machine.event), -EBUSY);
	ck_assert_int_eq(as(UNPRIVILEGED, delete_event(machine.data, machine.event)), -EBUSY);
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

	ck_assert_int_eq(as(UNPRIVILEGED, enable_persistent(&machine)), -EPERM);
	ck_assert_int_eq(as(NAMESPACE_ROOT, enable_persistent(&machine)), -EPERM);
	ck_assert_int_eq(as(POWERLESS_ROOT, enable_persistent(&machine)), -EPERM);
	ck_assert(!event_exists(machine.event));
	ck_assert_int_eq(as(ROOT, enable_persistent(&machine)), 0);
	ck_assert(event_exists(machine.event));
	/* The file with the registration holds the event, too. */
	fd_closep(&machine.data);
	machine.data = data_open(O_RDWR);
	ck_assert(eventually(delete_event(machine.data, machine.event) == 0));
}
END_TEST

TEST(deleting_a_persistent_event_needs_a_capability)
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
	ck_assert(eventually(as(UNPRIVILEGED, delete_event(machine.data, machine.event)) == -EPERM));
	ck_assert_int_eq(as(NAMESPACE_ROOT, delete_event(machine.data, machine.event)), -EPERM);
	ck_assert_int_eq(as(POWERLESS_ROOT, delete_event(machine.data, machine.event)), -EPERM);
	ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	ck_assert(!event_exists(machine.event));
}
END_TEST

/* The first registration decides. */
TEST(existing_event_keeps_its_persistence)
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
	 ENABLE_ADDRESS(an_event_goes_with_its_last_file), ENABLE_ADDRESS(enabler_holds_event_until_its_process_exits),
	 ENABLE_ADDRESS(enabler_does_not_delay_close_of_another_file),
	 EITHER(an_event_that_is_on_stays_until_it_is_switched_off),
	 ENABLE_ADDRESS(name_is_free_for_other_fields_after_its_event),
	 STATUS_PAGE(event_outlives_its_files_until_deleted), STATUS_PAGE(data_file_is_enough_to_delete_an_idle_event),
	 STATUS_PAGE(deleted_event_may_return_with_other_fields_and_bit), EITHER(deleting_a_held_event_is_refused),
	 ENABLE_ADDRESS(a_persistent_event_wants_a_capability_to_be_made),
	 ENABLE_ADDRESS(deleting_a_persistent_event_needs_a_capability),
	 ENABLE_ADDRESS(existing_event_keeps_its_persistence))
