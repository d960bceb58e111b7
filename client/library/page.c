/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What came over the socket is looked at before it is used: a page that is shorter than it should be is a SIGBUS, a pipe a
 * SIGPIPE, a file on a full disk a wait. Pages are memfds or files on a tmpfs, or the kernel's own; data files are datagram
 * sockets or the kernel's own.
 *
 * And a page that is shortened later is a SIGBUS, too: it is sealed against that, or is seen through a read-only mount, or belongs
 * to root or the daemon alone. A daemon that is no root's and shortens its own file can't be ruled out: see SECURITY.md.
 */

/* A 32-bit program that asks for 32 bits gets EOVERFLOW for the inode numbers of a tmpfs. */
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "client/library/library.h"

static bool is_on(int fd, uint32_t magic)
{
	struct statfs where;

	return fstatfs(fd, &where) == 0 && (uint32_t)where.f_type == magic;
}

/* Only those can shorten it whom the program believes anyway: its socket leads to them. */
static bool belongs_to_peer(const struct stat *status, int socket)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return false;
	/* Also systemd, which listens for a daemon that has a user of its own. */
	if (peer.uid == 0)
		return true;
	return (status->st_uid == 0 || status->st_uid == peer.uid) && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

static bool stays_whole(int fd, const struct stat *status, int socket)
{
	struct statvfs mount;
	int seals = fcntl(fd, F_GET_SEALS);

	return (seals >= 0 && seals & F_SEAL_SHRINK) || (fstatvfs(fd, &mount) == 0 && mount.f_flag & ST_RDONLY) ||
	       belongs_to_peer(status, socket);
}

static bool is_page(int fd, int socket)
{
	struct stat status;

	/* The kernel's own page says that it has no size. */
	if (is_on(fd, TRACEFS_MAGIC))
		return true;
	return is_on(fd, TMPFS_MAGIC) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       status.st_size >= WIRE_PAGE_BYTES && stays_whole(fd, &status, socket);
}

/*
 * Others may be reading the old page: it must never be missing. So the new one is mapped elsewhere, where that may fail,
 * and then moved.
 */
int page_map(int fd, int socket, uint8_t **page)
{
	void *mapped;

	if (!is_page(fd, socket))
		return -EPROTO;
	mapped = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return errno == ENOMEM ? -ENOMEM : -EPROTO;
	if (*page &&
	    mremap(mapped, WIRE_PAGE_BYTES, WIRE_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, *page) == MAP_FAILED) {
		page_unmap(mapped);
		return -ENOMEM;
	}
	if (!*page)
		*page = mapped;
	return 0;
}

void page_unmap(uint8_t *page)
{
	if (page)
		munmap(page, WIRE_PAGE_BYTES);
}

static bool is_datagram_socket(int fd)
{
	int type;
	socklen_t size = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && (type == SOCK_SEQPACKET || type == SOCK_DGRAM);
}

bool fd_is_data_file(int fd)
{
	if (is_on(fd, TRACEFS_MAGIC))
		return true;
	return is_datagram_socket(fd) && fcntl(fd, F_GETFL) & O_NONBLOCK;
}
