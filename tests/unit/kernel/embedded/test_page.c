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

TEST(bit_is_seen_in_clients_map)
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

static void expect_not_writable(int fd)
{
	uint8_t byte = 0xff;
	void *memory;

	ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert_int_lt(pwrite(fd, &byte, 1, 0), 0);
	ck_assert_int_lt(write(fd, &byte, 1), 0);
	ck_assert_int_lt(pwrite(fd, &byte, 1, 4096), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 2 * WIRE_PAGE_FILE_BYTES), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096), 0);
	ck_assert_int_lt(fallocate(fd, 0, 0, 2 * WIRE_PAGE_FILE_BYTES), 0);
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
	expect_not_writable(fd);
	page_deinit(&page, &files);
}

TEST(page_cannot_be_written_after_reopening)
{
	static const int flags[] = { O_RDONLY, O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_RDWR | O_TRUNC };
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);

	page_set(&page, 1, true);
	/* Its owner, and root, may change its mode. */
	fchmod(fd, 0666);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		_cleanup_(fd_closep) int again = reopen(fd, flags[i]);
		uint8_t byte = 0xff;

		if (again < 0)
			continue;
		if ((flags[i] & O_ACCMODE) == O_WRONLY)
			ck_assert_int_lt(write(again, &byte, 1), 0);
		else
			expect_not_writable(again);
	}
	page_deinit(&page, &files);
}

/* Gets a root directory without /proc. False: this user can't. */
static bool lose_proc(const char *empty)
{
	if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
		return false;
	return chroot(empty) == 0;
}

TEST(client_gets_sealed_file_without_proc)
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
			expect_not_writable(fd);
		}
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	rmdir(empty);
}

TEST(freed_bit_is_off_and_taken_next)
{
	_cleanup_(fd_closep) int fd = new_page(WIRE_PAGE_BITS);
	const uint8_t *client = map(fd);
	uint32_t bit, again;

	ck_assert_int_eq(bits_take(&page.bits, &bit), 0);
	page_set(&page, bit, true);
	ck_assert_uint_ne(client[bit / 8], 0);
	page_give_bit(&page, bit);
	ck_assert_uint_eq(client[bit / 8], 0);
	ck_assert_int_eq(bits_take(&page.bits, &again), 0);
	ck_assert_uint_eq(again, bit);
	page_deinit(&page, &files);
}
