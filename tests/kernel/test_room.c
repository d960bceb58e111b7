/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* The kernel's limits on the number of events. */

#define USER_EVENTS_MAX "/proc/sys/kernel/user_events_max"

static long maximum(void)
{
	char text[64];

	read_file(USER_EVENTS_MAX, text, sizeof(text));
	return strtol(text, NULL, 10);
}

static int set_maximum(long max)
{
	char text[64];

	snprintf(text, sizeof(text), "%ld", max);
	return write_file(USER_EVENTS_MAX, text);
}

/*
 * As `as(who, …)` while the kernel has room for that many events. The maximum is restored before anything is asserted.
 */
#define with_room_for(max, who, expression)                                                                            \
	({                                                                                                             \
		long before_ = maximum();                                                                              \
		int result_ = set_maximum(max);                                                                        \
		if (result_ == 0)                                                                                      \
			result_ = as(who, (expression));                                                               \
		ck_assert_int_eq(set_maximum(before_), 0);                                                             \
		result_;                                                                                               \
	})

TEST(new_event_past_the_maximum_is_refused)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(with_room_for(status_number("Active: ") + 1, ROOT, join(stream, machine.text)), 0);
	ck_assert_int_eq(with_room_for(status_number("Active: "), ROOT, join(stream, machine.other_text)), -EMFILE);
	ck_assert(!event_exists(machine.other));
	ck_assert_int_eq(write_value(stream, 1), -ENOENT);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
}
END_TEST

TEST(existing_event_is_joined_past_the_maximum)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(with_room_for(1, ROOT, join(stream, machine.text)), 0);
	ck_assert_int_eq(with_room_for(0, ROOT, join(machine.data, machine.text)), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(stream, 0), 4);
}
END_TEST

/* How many of two events exist, and whether the first works. */
static int count_working(const struct machine *machine)
{
	return event_exists(machine->event) + event_exists(machine->other) + (write_value(machine->data, 0) == 4);
}

TEST(lowering_the_maximum_removes_nothing)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(join(machine.data, machine.other_text), 1);
	switch_event(machine.event, true);
	ck_assert_int_eq(with_room_for(0, ROOT, count_working(&machine)), 3);
	ck_assert(event_exists(machine.event));
	ck_assert(event_exists(machine.other));
}
END_TEST

TEST(an_event_that_went_makes_room)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	long room = status_number("Active: ") + 1;

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(with_room_for(room, ROOT, join(machine.data, machine.other_text)), -EMFILE);
	fd_closep(&stream);
	ck_assert(eventually(!event_exists(machine.event)));
	ck_assert_int_eq(with_room_for(room, ROOT, join(machine.data, machine.other_text)), 0);
}
END_TEST

TEST(maximum_is_32768_and_counts_all_registrations)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(maximum(), 32768);
	ck_assert_int_eq(with_room_for(status_number("Active: "), UNPRIVILEGED, join(stream, machine.text)), -EMFILE);
	ck_assert_int_eq(as(UNPRIVILEGED, set_maximum(1)), -EACCES);
	ck_assert_int_eq(as(NAMESPACE_ROOT, set_maximum(1)), -EACCES);
}
END_TEST

TEST(maximum_is_the_capacity_of_the_page)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();

	ck_assert_int_eq(status_number("Max: "), 32768);
	ck_assert_int_eq(set_maximum(1), -ENOENT);
}
END_TEST

PROMISES("room", ENABLE_ADDRESS(new_event_past_the_maximum_is_refused),
	 ENABLE_ADDRESS(existing_event_is_joined_past_the_maximum),
	 ENABLE_ADDRESS(lowering_the_maximum_removes_nothing), ENABLE_ADDRESS(an_event_that_went_makes_room),
	 ENABLE_ADDRESS(maximum_is_32768_and_counts_all_registrations),
	 STATUS_PAGE(maximum_is_the_capacity_of_the_page))
