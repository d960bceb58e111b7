/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * The page is a file that outlives us (page_file.c), written byte by byte: whatever somebody may do to it, we never map it.
 *
 * Where there is no directory for such files it is a memfd that we map writable and then seal: F_SEAL_FUTURE_WRITE leaves our
 * mapping as the only one that can write, now and for ever, whoever opens or maps the file in whatever way; the other seals keep
 * it from shrinking under the clients (SIGBUS) and from being sealed further. No successor can write to that one. What a page says
 * is never read back.
 */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { SEALS = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL };

static int memfd_new(void)
{
	int fd = memfd_create("userevd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	/* Before Linux 6.3. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("userevd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

/* The seals are what protects it; that it cannot even be opened for writing spares clients a surprise. */
static int reopen_read_only(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int map_and_seal(int fd, uint8_t **ret)
{
	void *memory;

	if (ftruncate(fd, WIRE_PAGE_BYTES) < 0 || fchmod(fd, 0444) < 0)
		return -errno;
	memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	/* Nobody who switches an event waits for it; where that is not allowed, he may. */
	mlock(memory, WIRE_PAGE_BYTES);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		int saved = errno;

		munmap(memory, WIRE_PAGE_BYTES);
		return -saved;
	}
	*ret = memory;
	return 0;
}

static int make_sealed(struct page *page, int *ret_client)
{
	_cleanup_(fd_closep) int fd = memfd_new();
	int handed_out, r;

	if (fd < 0)
		return fd;
	r = map_and_seal(fd, &page->memory);
	if (r < 0)
		return r;
	handed_out = reopen_read_only(fd);
	*ret_client = handed_out >= 0 ? handed_out : fd_steal(&fd); /* there may be no /proc */
	return 0;
}

int page_init(struct page *page, struct page_files *files, uint32_t bits, int *ret_fd)
{
	int r;

	page->fd = -1;
	page->memory = NULL;
	if (bits == 0 || bits > WIRE_PAGE_BITS)
		return -EINVAL;
	r = files->directory >= 0 ? page_file_new(files, &page->fd, ret_fd) : make_sealed(page, ret_fd);
	if (r < 0)
		return r;
	memset(page->on, 0, sizeof(page->on));
	bits_init(&page->bits, bits);
	return 0;
}

void page_deinit(struct page *page, struct page_files *files)
{
	page_file_free(files, page->fd);
	page->fd = -1;
	if (!page->memory)
		return;
	/* As a file's end: who still looks at it looks for another daemon. */
	memset(page->memory, 0xff, WIRE_PAGE_BYTES);
	munmap(page->memory, WIRE_PAGE_BYTES);
	page->memory = NULL;
}

int page_take_bit(struct page *page, uint32_t *ret)
{
	return bits_take(&page->bits, ret);
}

void page_give_bit(struct page *page, uint32_t bit)
{
	page_set(page, bit, false);
	bits_give(&page->bits, bit);
}

void page_set(struct page *page, uint32_t bit, bool on)
{
	uint8_t *byte = &page->on[bit / 8];
	uint8_t mask = (uint8_t)(1u << bit % 8);
	const uint8_t now = on ? *byte | mask : *byte & (uint8_t)~mask;

	if (now == *byte)
		return;
	*byte = now;
	if (page->memory)
		__atomic_store_n(&page->memory[bit / 8], now, __ATOMIC_RELEASE);
	else
		/* Its memory is there since it was made, so there is nothing to fail. */
		(void)!pwrite(page->fd, byte, 1, bit / 8);
}
