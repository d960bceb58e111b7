/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* A lock on a byte of the data file shows whether a copy of an open file is left. */

/* Where a keeper's bytes may be. */
static const off_t somewhere = (off_t)1 << 61 | 7;

static struct flock lock_at(short type, off_t byte)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
}

static int lock(int stream, off_t byte)
{
	struct flock what = lock_at(F_WRLCK, byte);

	return fcntl(stream, F_OFD_SETLK, &what) < 0 ? -errno : 0;
}

static int unlock(int stream, off_t byte)
{
	struct flock what = lock_at(F_UNLCK, byte);

	return fcntl(stream, F_OFD_SETLK, &what) < 0 ? -errno : 0;
}

/* Whether another open file is refused the lock: 1, 0, or a negative errno. */
static int is_locked(int data, off_t byte)
{
	struct flock what = lock_at(F_WRLCK, byte);

	return fcntl(data, F_OFD_GETLK, &what) < 0 ? -errno : what.l_type != F_UNLCK;
}

TEST(a_lock_is_seen_from_a_separate_open_alone)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	_cleanup_(fd_closep) int asking = data_open(O_WRONLY);
	_cleanup_(fd_closep) int copy = -1;

	ck_assert_int_eq(is_locked(asking, somewhere), 0);
	ck_assert_int_eq(lock(stream, somewhere), 0);
	ck_assert_int_eq(is_locked(asking, somewhere), 1);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
	copy = fcntl(stream, F_DUPFD_CLOEXEC, 0);
	ck_assert_int_eq(is_locked(stream, somewhere), 0);
	ck_assert_int_eq(is_locked(copy, somewhere), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, is_locked(asking, somewhere)), 1);
}
END_TEST

TEST(a_lock_lasts_as_long_as_the_last_copy_of_its_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	_cleanup_(fd_closep) int copy = -1;
	struct person holder;

	ck_assert_int_eq(lock(stream, somewhere), 0);
	copy = fcntl(stream, F_DUPFD_CLOEXEC, 0);
	fd_closep(&stream);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
	holder = companion_start();
	fd_closep(&copy);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
	companion_end(&holder);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 0);
}
END_TEST

/* Not like the locks of fcntl(F_SETLK), which any close ends. */
TEST(closing_other_open_files_or_copies_ends_no_lock)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);
	int other = data_open(O_WRONLY), copy = fcntl(stream, F_DUPFD_CLOEXEC, 0);

	ck_assert_int_eq(lock(stream, somewhere), 0);
	close(other);
	close(copy);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
	ck_assert_int_eq(as(ROOT, close(stream)), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
}
END_TEST

TEST(locks_on_other_bytes_do_not_matter)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int first = data_open(O_WRONLY);
	_cleanup_(fd_closep) int second = data_open(O_WRONLY);

	ck_assert_int_eq(lock(first, somewhere), 0);
	ck_assert_int_eq(lock(second, somewhere + 1), 0);
	ck_assert_int_eq(lock(second, 0), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 1);
	ck_assert_int_eq(is_locked(machine.data, somewhere + 1), 1);
	ck_assert_int_eq(is_locked(machine.data, somewhere + 2), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere - 1), 0);
	fd_closep(&first);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere + 1), 1);
	ck_assert_int_eq(is_locked(machine.data, 0), 1);
}
END_TEST

TEST(a_byte_is_locked_once)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int first = data_open(O_WRONLY);
	_cleanup_(fd_closep) int second = data_open(O_WRONLY);

	ck_assert_int_eq(lock(first, somewhere), 0);
	ck_assert_int_eq(lock(first, somewhere), 0);
	ck_assert_int_eq(lock(second, somewhere), -EAGAIN);
}
END_TEST

/* The guard forbids both. */
TEST(holder_can_remove_the_lock_and_place_its_own)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(lock(stream, somewhere), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, lock(stream, somewhere + 1)), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere + 1), 1);
	ck_assert_int_eq(as(UNPRIVILEGED, unlock(stream, somewhere)), 0);
	ck_assert_int_eq(is_locked(machine.data, somewhere), 0);
}
END_TEST

TEST(write_lock_needs_writable_file_and_asking_does_not)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int reading = data_open(O_RDONLY);

	ck_assert_int_eq(lock(reading, somewhere), -EBADF);
	ck_assert_int_eq(lock(machine.data, somewhere), 0);
	ck_assert_int_eq(is_locked(reading, somewhere), 1);
}
END_TEST

PROMISES("lock", EITHER(a_lock_is_seen_from_a_separate_open_alone),
	 EITHER(a_lock_lasts_as_long_as_the_last_copy_of_its_file),
	 EITHER(closing_other_open_files_or_copies_ends_no_lock), EITHER(locks_on_other_bytes_do_not_matter),
	 EITHER(a_byte_is_locked_once), EITHER(holder_can_remove_the_lock_and_place_its_own),
	 EITHER(write_lock_needs_writable_file_and_asking_does_not))
