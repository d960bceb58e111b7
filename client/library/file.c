/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Programs that become daemons close all fds that they do not know. The library's fds have high numbers to avoid collisions, and
 * are compared with their file's identity before they are used for anything but a record. (All openings of the kernel's data file
 * have the same identity, so a program that opens that file itself cannot be protected.)
 */

/* With 32-bit inode numbers fstat() fails with EOVERFLOW for larger ones. */
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "client/library/file.h"
#include "protocol/base/base.h"

/* Above the numbers that shells and inherited sockets use, below usual limits. */
enum { FILE_NUMBER_MIN = 100 };

int file_move_up(int fd)
{
	int above = -1;

	if (fd >= 0 && fd < FILE_NUMBER_MIN)
		above = fcntl(fd, F_DUPFD_CLOEXEC, FILE_NUMBER_MIN);
	/* Never use the number of a standard stream, even if the limit is too low for FILE_NUMBER_MIN. */
	if (above < 0 && fd >= 0 && fd <= STDERR_FILENO)
		above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (above < 0)
		return fd;
	fd_close(fd);
	return above;
}

void file_identify(int fd, struct file_id *ret)
{
	struct stat status;

	*ret = (struct file_id){ 0 };
	if (fstat(fd, &status) == 0)
		*ret = (struct file_id){ .device = status.st_dev, .inode = status.st_ino };
}

bool file_is(int fd, const struct file_id *id)
{
	struct file_id now;

	if (fd < 0)
		return false;
	file_identify(fd, &now);
	return now.inode != 0 && now.device == id->device && now.inode == id->inode;
}

bool file_is_data_file(int fd)
{
	struct statfs where;
	int type;
	socklen_t size = sizeof(type);

	if (fstatfs(fd, &where) == 0 && where.f_type == MAGIC_TRACEFS)
		return true;
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
	       (type == SOCK_SEQPACKET || type == SOCK_DGRAM) && fcntl(fd, F_GETFL) & O_NONBLOCK;
}
