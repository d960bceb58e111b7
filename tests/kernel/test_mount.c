/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* The guard recognizes the keeper's files by the id of the mount through which they were opened. */

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

/* 0 if the kernel does not report it. */
static uint64_t id_of_kind(int fd, unsigned kind)
{
	struct statx status = { 0 };

	ck_assert_int_eq(statx(fd, "", AT_EMPTY_PATH, kind, &status), 0);
	return status.stx_mask & kind ? status.stx_mnt_id : 0;
}

/* The unique id, which is never reused. */
static uint64_t mount_id(int fd)
{
	uint64_t unique = id_of_kind(fd, STATX_MNT_ID_UNIQUE);

	return unique ? unique : id_of_kind(fd, STATX_MNT_ID);
}

static int clone_tracefs(void)
{
	int fd = open_tree(AT_FDCWD, TRACEFS, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int open_through(int mount)
{
	int fd = openat(mount, "user_events_data", O_WRONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int reopen(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

TEST(clone_of_tracefs_marks_files_opened_through_it)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	_cleanup_(fd_closep) int another = clone_tracefs();
	_cleanup_(fd_closep) int stream = open_through(mount);
	_cleanup_(fd_closep) int foreign = open_through(another);

	ck_assert_uint_ne(mount_id(stream), 0);
	ck_assert_uint_eq(mount_id(stream), mount_id(mount));
	ck_assert_uint_eq(mount_id(foreign), mount_id(another));
	ck_assert_uint_ne(mount_id(stream), mount_id(machine.data));
	ck_assert_uint_ne(mount_id(stream), mount_id(foreign));
}
END_TEST

TEST(a_file_that_is_reopened_keeps_its_mount)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	_cleanup_(fd_closep) int stream = open_through(mount);
	_cleanup_(fd_closep) int again = reopen(stream);
	_cleanup_(fd_closep) int once_more = reopen(again);

	ck_assert_uint_eq(mount_id(again), mount_id(mount));
	ck_assert_uint_eq(mount_id(once_more), mount_id(mount));
}
END_TEST

/* Whether the file, and a file reopened from it, have that mount in another mount namespace. */
static int has_mount_elsewhere(int stream, uint64_t id)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	return mount_id(stream) == id && mount_id(reopen(stream)) == id &&
	       mount_id(open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC)) != id;
}

TEST(mount_id_is_the_same_in_another_namespace)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	_cleanup_(fd_closep) int stream = open_through(mount);

	ck_assert_int_eq(as(ROOT, has_mount_elsewhere(stream, mount_id(mount))), 1);
}
END_TEST

TEST(files_of_a_detached_clone_keep_their_mount_id)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	_cleanup_(fd_closep) int stream = open_through(mount);
	_cleanup_(fd_closep) int again = -1;
	uint64_t id = mount_id(mount);

	fd_closep(&mount);
	ck_assert_uint_eq(mount_id(stream), id);
	again = reopen(stream);
	ck_assert_uint_eq(mount_id(again), id);
	ck_assert_int_eq(join(again, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(again, 0), 4);
}
END_TEST

TEST(a_file_of_a_clone_works_like_any_other)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	_cleanup_(fd_closep) int stream = open_through(mount);

	ck_assert_int_eq(join(stream, machine.text), 0);
	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(stream, 0), 4);
	ck_assert_int_eq(write_value(machine.data, 0), 4);
	ck_assert_uint_eq(count_records(machine.event), 2);
}
END_TEST

/* If ids were reused, a guard with a stale id would guard the files of another mount. */
TEST(only_newer_kernels_have_unique_mount_ids)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();
	uint64_t first = id_of_kind(mount, STATX_MNT_ID), unique = id_of_kind(mount, STATX_MNT_ID_UNIQUE);

	ck_assert_uint_ne(first, 0);
	fd_closep(&mount);
	ck_assert(eventually(({
		fd_closep(&mount);
		mount = clone_tracefs();
		id_of_kind(mount, STATX_MNT_ID) == first;
	})));
	if (machine.abi == ABI_STATUS_PAGE)
		ck_assert_uint_eq(unique, 0);
	else
		ck_assert_uint_gt(id_of_kind(mount, STATX_MNT_ID_UNIQUE), unique);
}
END_TEST

static int made_clone(void)
{
	return open_tree(AT_FDCWD, TRACEFS, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) < 0 ? -errno : 0;
}

TEST(clone_needs_a_capability_and_an_attached_mount)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int mount = clone_tracefs();

	ck_assert_int_eq(as(UNPRIVILEGED, made_clone()), -EPERM);
	ck_assert_int_eq(as(NAMESPACE_ROOT, made_clone()), -EPERM);
	ck_assert_int_eq(open_tree(mount, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

PROMISES("mount", EITHER(clone_of_tracefs_marks_files_opened_through_it),
	 EITHER(a_file_that_is_reopened_keeps_its_mount), EITHER(mount_id_is_the_same_in_another_namespace),
	 EITHER(files_of_a_detached_clone_keep_their_mount_id), EITHER(a_file_of_a_clone_works_like_any_other),
	 EITHER(only_newer_kernels_have_unique_mount_ids), EITHER(clone_needs_a_capability_and_an_attached_mount))
