/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * The page is a file that outlives the daemon (page_file.c). It is written byte by byte and never mapped.
 *
 * Without a directory for such files it is a memfd that is mapped writable and then sealed: with F_SEAL_FUTURE_WRITE our mapping remains
 * the only one that can write, however the file is opened or mapped; the other seals keep it from shrinking under the clients (SIGBUS)
 * and from being sealed further. A successor can't write to it. The daemon never reads a page.
 */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { SEALS = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL };

static int page_make_sealed(struct page *page, int *ret_client)
{
	_cleanup_(fd_closep) int fd = memfd_create("userevd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	char path[32];
	void *memory;
	int r;

	/* Before Linux 6.3. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("userevd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, WIRE_PAGE_FILE_BYTES) < 0 || fchmod(fd, 0444) < 0)
		return -errno;
	memory = mmap(NULL, WIRE_PAGE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	/* So that no write waits for the disk; if that is not allowed, it may. */
	mlock(memory, WIRE_PAGE_BYTES);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		r = -errno;
		munmap(memory, WIRE_PAGE_FILE_BYTES);
		return r;
	}
	page->memory = memory;
	/* Not needed for protection, but a read-only fd shows clients what to expect. There may be no /proc. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret_client = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_client < 0)
		*ret_client = fd_steal(&fd);
	return 0;
}

int page_init(struct page *page, struct page_files *files, uint32_t bits, int *ret_fd)
{
	int r;

	page->fd = -1;
	page->memory = NULL;
	page->bits.owners = NULL;
	r = files->directory >= 0 ? page_file_new(files, &page->fd, ret_fd) : page_make_sealed(page, ret_fd);
	if (r < 0)
		return r;
	memset(page->on, 0, sizeof(page->on));
	page->is_traced = false;
	bits_init(&page->bits, bits);
	return 0;
}

void page_deinit(struct page *page, struct page_files *files)
{
	page_file_free(files, page->fd);
	page->fd = -1;
	bits_deinit(&page->bits);
	if (!page->memory)
		return;
	/* Clients look for another daemon, as at the end of a file. */
	memset(page->memory, 0xff, WIRE_PAGE_BYTES);
	munmap(page->memory, WIRE_PAGE_FILE_BYTES);
	page->memory = NULL;
}

void page_give_bit(struct page *page, uint32_t bit)
{
	page_set(page, bit, false);
	page_trace(page, bit, 0);
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
		/* Its memory was allocated when it was made, so this can't fail. */
		(void)!pwrite(page->fd, byte, 1, bit / 8);
}

void page_trace(struct page *page, uint32_t bit, uint16_t state)
{
	if (state == 0 && !page->is_traced)
		return;
	page->is_traced = true;
	if (!page->memory) {
		(void)page_file_trace(page->fd, bit, state);
		return;
	}
	if (state & KERNEL_TRACES) {
		__atomic_store_n(&page->memory[WIRE_TRACES_AT + bit], page_traces_byte(state), __ATOMIC_RELEASE);
		__atomic_fetch_or(&page->memory[WIRE_TRACED_AT + bit / 8], (uint8_t)(1u << bit % 8), __ATOMIC_RELEASE);
	} else {
		__atomic_fetch_and(&page->memory[WIRE_TRACED_AT + bit / 8], (uint8_t) ~(1u << bit % 8),
				   __ATOMIC_RELEASE);
	}
}
