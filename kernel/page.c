/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kernel/kernel.h"

/*
 * The page is a memfd that we map writable and then seal: F_SEAL_FUTURE_WRITE leaves our mapping as the only one that can
 * write, now and for ever, whoever opens or maps the file in whatever way; the other seals keep it from shrinking under the
 * clients (SIGBUS) and from being sealed further. What it says is never read back.
 *
 * A client's test of an event compares a whole byte first (userev.h), so bits are given in an order that fills every byte
 * with one event before any gets a second: rank = (bit % 8) * bytes + bit / 8.
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
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		int saved = errno;

		munmap(memory, WIRE_PAGE_BYTES);
		return -saved;
	}
	*ret = memory;
	return 0;
}

static void take_rank(struct page *page, uint32_t rank)
{
	page->taken[rank / 64] |= UINT64_C(1) << rank % 64;
}

static uint32_t rank_of(const struct page *page, uint32_t bit)
{
	return bit % 8 * page->bytes + bit / 8;
}

/* What is not there counts as taken, and so does bit 0. */
static void init_bits(struct page *page, uint32_t bits)
{
	page->bytes = (bits + 7) / 8;
	memset(page->taken, 0xff, sizeof(page->taken));
	for (uint32_t bit = 1; bit < bits; bit++) {
		uint32_t rank = rank_of(page, bit);

		page->taken[rank / 64] &= ~(UINT64_C(1) << rank % 64);
	}
	page->first_free = 0;
}

int page_init(struct page *page, uint32_t bits, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	int handed_out, r;

	if (bits == 0 || bits > WIRE_PAGE_BITS)
		return -EINVAL;
	fd = memfd_new();
	if (fd < 0)
		return fd;
	r = map_and_seal(fd, &page->memory);
	if (r < 0)
		return r;
	handed_out = reopen_read_only(fd);
	*ret_fd = handed_out >= 0 ? handed_out : fd_steal(&fd); /* there may be no /proc */
	memset(page->on, 0, sizeof(page->on));
	init_bits(page, bits);
	return 0;
}

void page_deinit(struct page *page)
{
	if (page->memory)
		munmap(page->memory, WIRE_PAGE_BYTES);
	page->memory = NULL;
}

int page_take_bit(struct page *page, uint32_t *ret)
{
	uint32_t rank;

	while (page->first_free < ARRAY_SIZE(page->taken) && page->taken[page->first_free] == UINT64_MAX)
		page->first_free++;
	if (page->first_free == ARRAY_SIZE(page->taken))
		return KERNEL_E_PAGE_FULL;
	rank = (uint32_t)page->first_free * 64 + (uint32_t)__builtin_ctzll(~page->taken[page->first_free]);
	take_rank(page, rank);
	*ret = rank % page->bytes * 8 + rank / page->bytes;
	return 0;
}

void page_give_bit(struct page *page, uint32_t bit)
{
	uint32_t rank = rank_of(page, bit);

	page_set(page, bit, false);
	page->taken[rank / 64] &= ~(UINT64_C(1) << rank % 64);
	page->first_free = MIN(page->first_free, rank / 64);
}

void page_set(struct page *page, uint32_t bit, bool on)
{
	uint8_t *byte = &page->on[bit / 8];
	uint8_t mask = (uint8_t)(1u << bit % 8);

	*byte = on ? *byte | mask : *byte & (uint8_t)~mask;
	__atomic_store_n(&page->memory[bit / 8], *byte, __ATOMIC_RELEASE);
}
