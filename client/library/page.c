/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A page that is too short, or truncated after it was mapped, raises SIGBUS when it is read. So the library accepts only a
 * tracefs file, or a tmpfs file or memfd that no other party can truncate: sealed, on a read-only mount, or writable only by root
 * and the daemon's user. A daemon that does not run as root can still truncate its own file: see SECURITY.md.
 */

/* With 32-bit inode numbers fstat() fails with EOVERFLOW for those of a tmpfs. */
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "client/library/file.h"
#include "client/library/page.h"
#include "protocol/wire.h"

static bool page_cannot_shrink(int fd, const struct stat *status, int socket)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);
	const int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && seals & F_SEAL_SHRINK)
		return true;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return false;
	/* The peer is root also where systemd listens for a daemon that runs as another user. */
	return peer.uid == 0 ||
	       ((status->st_uid == 0 || status->st_uid == peer.uid) && !(status->st_mode & (S_IWGRP | S_IWOTH)));
}

/* Room for a page with what may be behind a later one; or NULL. */
static uint8_t *page_reserve(void)
{
	void *memory = mmap(NULL, WIRE_PAGE_FILE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Other threads may be reading the old page, so its address must stay mapped: map the new page elsewhere, then move it there. */
static int page_place(int fd, size_t size, uint8_t **at)
{
	void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED)
		return errno == ENOMEM ? -ENOMEM : -EPROTO;
	if (!*at)
		*at = mapped;
	else if (mremap(mapped, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, *at) == MAP_FAILED) {
		munmap(mapped, size);
		return -ENOMEM;
	}
	return 0;
}

int page_map(int fd, int socket, uint8_t **page)
{
	struct statfs where;
	struct stat status;
	bool has_traces;
	uint8_t *at;
	size_t size;
	int r;

	if (fstatfs(fd, &where) < 0 || fstat(fd, &status) < 0)
		return -EPROTO;
	/* The kernel's own page, on tracefs, reports size 0. */
	if (where.f_type != MAGIC_TRACEFS &&
	    (where.f_type != MAGIC_TMPFS || !S_ISREG(status.st_mode) || status.st_size < WIRE_PAGE_BYTES ||
	     !(where.f_flags & ST_RDONLY || page_cannot_shrink(fd, &status, socket))))
		return -EPROTO;
	/* In the page of an older daemon, as in the kernel's own, nothing is behind it. */
	has_traces = where.f_type == MAGIC_TMPFS && status.st_size >= WIRE_PAGE_FILE_BYTES;
	size = has_traces ? WIRE_PAGE_FILE_BYTES : WIRE_PAGE_BYTES;
	at = *page || has_traces ? *page : page_reserve();
	if (!at && !has_traces)
		return -ENOMEM;
	r = page_place(fd, size, &at);
	if (r == 0)
		*page = at;
	else if (!*page)
		page_unmap(at);
	return r < 0 ? r : has_traces;
}

void page_unmap(uint8_t *page)
{
	if (page)
		munmap(page, WIRE_PAGE_FILE_BYTES);
}
