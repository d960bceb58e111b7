/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Our fds live among a program's, which may close what it does not know: all of them when it becomes a daemon. So they are
 * where few look, and before one is used for anything but a record we see whether it is still ours. (All openings of the
 * kernel's data file look alike; a program that has one of its own is on its own.)
 */

/* A 32-bit program that asks for 32 bits gets EOVERFLOW for large inode numbers. */
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <sys/stat.h>

#include "client/library/library.h"

/* Above what shells, daemons' inherited sockets and the like use, below the limits that people set. */
enum { OUT_OF_THE_WAY = 100 };

int fd_out_of_the_way(int fd)
{
	int above = -1;

	if (fd >= 0 && fd < OUT_OF_THE_WAY)
		above = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	/* A program that has closed its standard output must not find us there, however few fds it may have. */
	if (above < 0 && fd >= 0 && fd <= STDERR_FILENO)
		above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (above < 0)
		return fd;
	fd_close(fd);
	return above;
}

void fd_identify(int fd, struct file_id *ret)
{
	struct stat status;

	*ret = (struct file_id){ 0 };
	if (fstat(fd, &status) == 0)
		*ret = (struct file_id){ .device = status.st_dev, .inode = status.st_ino };
}

bool fd_is(int fd, const struct file_id *id)
{
	struct file_id now;

	if (fd < 0)
		return false;
	fd_identify(fd, &now);
	return now.inode != 0 && now.device == id->device && now.inode == id->inode;
}
