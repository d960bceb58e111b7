/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>

#include "protocol/fdset.h"
#include "tests/suite.h"

static int new_fd(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(fdset_takes_eight_fds)
{
	struct fdset set = { 0 };
	int ninth = new_fd();

	for (size_t i = 0; i < WIRE_FDS_MAX; i++)
		ck_assert_int_eq(fdset_take(&set, new_fd()), 0);
	ck_assert_int_eq(fdset_take(&set, ninth), -ENOSPC);
	ck_assert_uint_eq(set.count, WIRE_FDS_MAX);
	fdset_deinit(&set);
	ck_assert(is_open(ninth));
	close(ninth);
}

TEST(stolen_fd_is_not_closed)
{
	struct fdset set = { 0 };
	int first = new_fd(), second = new_fd();

	fdset_take(&set, first);
	fdset_take(&set, second);
	ck_assert_int_eq(fdset_steal(&set, 1), second);
	ck_assert_int_eq(fdset_steal(&set, 1), -1);
	ck_assert_int_eq(fdset_steal(&set, 2), -1);
	fdset_deinit(&set);
	ck_assert(!is_open(first));
	ck_assert(is_open(second));
	close(second);
}

TEST(ending_a_set_empties_it_and_keeps_errno)
{
	struct fdset set = { 0 };
	int fd = new_fd();

	ck_assert_int_eq(fdset_steal(&set, 0), -1);
	fdset_deinit(&set);
	fdset_take(&set, fd);
	errno = ENOTTY;
	fdset_deinit(&set);
	ck_assert_int_eq(errno, ENOTTY);
	ck_assert_uint_eq(set.count, 0);
	ck_assert_int_eq(fdset_steal(&set, 0), -1);
	/* The fd may have been reused: a second end must not close it. */
	ck_assert_int_eq(new_fd(), fd);
	fdset_deinit(&set);
	ck_assert(is_open(fd));
	close(fd);
}
