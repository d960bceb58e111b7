/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/page.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kernel/kernel.h"
#include "tests/suite.h"

static struct page_files files = { .directory = -1 };
static struct page page;

static int new_page(uint32_t bits)
{
	int fd = -1;

	ck_assert_int_eq(page_init(&page, &files, bits, &fd), 0);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static const uint8_t *map(int fd)
{
	void *memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static uint32_t take_bit(void)
{
	uint32_t bit = 0;

	ck_assert_int_eq(page_take_bit(&page, &bit), 0);
	return bit;
}

TEST(a_bit_that_is_set_is_seen_by_who_maps_the_page)
{
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);
	const uint8_t *client = map(fd);

	for (uint32_t bit = 1; bit < WIRE_PAGE_BITS; bit += 1237) {
		page_set(&page, bit, true);
		ck_assert_uint_eq(client[bit / 8], 1u << bit % 8);
		page_set(&page, bit, false);
		ck_assert_uint_eq(client[bit / 8], 0);
	}
	page_set(&page, 17, true);
	page_set(&page, 19, true);
	page_set(&page, 17, false);
	ck_assert_uint_eq(client[2], 1u << 3);
}

static void expect_no_way_to_write(int fd)
{
	uint8_t byte = 0xff;
	void *memory;

	ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert_int_lt(pwrite(fd, &byte, 1, 0), 0);
	ck_assert_int_lt(write(fd, &byte, 1), 0);
	ck_assert_int_lt(pwrite(fd, &byte, 1, 4096), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 8192), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096), 0);
	ck_assert_int_lt(fallocate(fd, 0, 0, 8192), 0);
	ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_lt(mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
	ck_assert_uint_eq(*(uint8_t *)memory, 2);
	munmap(memory, 4096);
}

static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

TEST(clients_fd_of_page_cannot_write)
{
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);

	page_set(&page, 1, true);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	expect_no_way_to_write(fd);
	page_deinit(&page, &files);
}

TEST(opening_it_again_does_not_help)
{
	static const int flags[] = { O_RDONLY, O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_RDWR | O_TRUNC };
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);

	page_set(&page, 1, true);
	/* Its owner may make it writable again: we try with the rights of the daemon itself, and those of root if we are. */
	fchmod(fd, 0666);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		_cleanup_(fd_closep) int again = reopen(fd, flags[i]);
		uint8_t byte = 0xff;

		if (again < 0)
			continue;
		if ((flags[i] & O_ACCMODE) == O_WRONLY)
			ck_assert_int_lt(write(again, &byte, 1), 0);
		else
			expect_no_way_to_write(again);
	}
	page_deinit(&page, &files);
}

/* A root directory without /proc; false where this user cannot have one. */
static bool lose_proc(const char *empty)
{
	if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
		return false;
	return chroot(empty) == 0;
}

TEST(without_proc_the_sealed_file_itself_is_handed_out)
{
	char empty[64];
	int status, fd;
	pid_t child;

	make_temporary_directory(empty, sizeof(empty));
	child = fork();
	if (child == 0) {
		if (lose_proc(empty)) {
			fd = new_page(WIRE_PAGE_BITS);
			page_set(&page, 1, true);
			expect_no_way_to_write(fd);
		}
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	rmdir(empty);
}

TEST(each_byte_gets_one_bit_first)
{
	_cleanup_(fd_closep) _unused_ int fd = new_page(WIRE_PAGE_BITS);
	unsigned in_byte[WIRE_PAGE_BYTES] = { 1 }; /* bit 0 */

	for (unsigned round = 1; round <= 8; round++)
		for (unsigned i = round == 1; i < WIRE_PAGE_BYTES; i++)
			ck_assert_uint_eq(++in_byte[take_bit() / 8], round);
	page_deinit(&page, &files);
}

TEST(a_page_gives_each_bit_once_and_never_bit_0)
{
	static const uint32_t sizes[] = { 1, 2, 3, 8, 9, 12, 64, 65, 1000, WIRE_PAGE_BITS - 1, WIRE_PAGE_BITS };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(fd_closep) _unused_ int fd = new_page(sizes[i]);
		bool given[WIRE_PAGE_BITS] = { true };
		uint32_t bit = 77;

		for (uint32_t n = 1; n < sizes[i]; n++) {
			bit = take_bit();
			ck_assert_uint_lt(bit, sizes[i]);
			ck_assert(!given[bit]);
			given[bit] = true;
		}
		bit = 77;
		ck_assert_int_eq(page_take_bit(&page, &bit), KERNEL_E_PAGE_FULL);
		ck_assert_uint_eq(bit, 77);
		page_deinit(&page, &files);
	}
}

TEST(freed_bit_is_off_and_taken_next)
{
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);
	const uint8_t *client = map(fd);
	uint32_t bit = 0;

	for (int n = 0; n < 100; n++)
		bit = take_bit();
	for (int n = 0; n < 100; n++)
		take_bit();
	page_set(&page, bit, true);
	ck_assert_uint_ne(client[bit / 8], 0);
	page_give_bit(&page, bit);
	ck_assert_uint_eq(client[bit / 8], 0);
	ck_assert_uint_eq(take_bit(), bit);
	page_deinit(&page, &files);
}

TEST(a_page_of_no_bits_or_too_many_is_refused)
{
	int fd = -1;

	ck_assert_int_eq(page_init(&page, &files, 0, &fd), -EINVAL);
	ck_assert_int_eq(page_init(&page, &files, WIRE_PAGE_BITS + 1, &fd), -EINVAL);
	ck_assert_int_eq(fd, -1);
	page_deinit(&page, &files);
}
