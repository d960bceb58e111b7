/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/kernel/page_attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "tests/kernel/pages.h"
#include "tests/suite.h"

static const char mark[] = "x";

static int said(ssize_t r)
{
	return r < 0 ? -errno : 0;
}

static int map_at(int fd, int protection, int flags, off_t offset)
{
	char *words = mmap(NULL, PAGE_BYTES, protection, flags, fd, offset);

	if (words == MAP_FAILED)
		return -errno;
	*words = *mark;
	munmap(words, PAGE_BYTES);
	return 0;
}

int map_writable(int fd)
{
	return map_at(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
}

int map_writable_behind(int fd)
{
	void *words = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE_BYTES);

	return words == MAP_FAILED ? -errno : 0;
}

int map_private(int fd)
{
	return map_at(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
}

static char *map_for_reading(int fd)
{
	void *words = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	return words == MAP_FAILED ? NULL : words;
}

static int make_writable(char *words)
{
	if (mprotect(words, PAGE_BYTES, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	*words = *mark;
	return 0;
}

int make_map_writable(int fd)
{
	char *words = map_for_reading(fd);

	return words ? make_writable(words) : NO_MAP;
}

int move_map_and_make_it_writable(int fd)
{
	char *words = map_for_reading(fd);

	if (!words)
		return NO_MAP;
	words = mremap(words, PAGE_BYTES, (size_t)2 * PAGE_BYTES, MREMAP_MAYMOVE);
	return words == MAP_FAILED ? -errno : make_writable(words);
}

int punch_through_map(int fd)
{
	char *words = map_for_reading(fd);

	return words ? said(madvise(words, PAGE_BYTES, MADV_REMOVE)) : NO_MAP;
}

int write_as_a_debugger(int fd)
{
	const char *words = map_for_reading(fd);
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (!words || memory < 0)
		return NO_MAP;
	return said(pwrite(memory, mark, 1, (off_t)(uintptr_t)words));
}

int write_as_another_process(int fd)
{
	struct iovec from = { .iov_base = (void *)(uintptr_t)mark, .iov_len = 1 };
	struct iovec to = { .iov_base = map_for_reading(fd), .iov_len = 1 };

	return to.iov_base ? said(process_vm_writev(getpid(), &from, 1, &to, 1, 0)) : NO_MAP;
}

/* A pipe that contains a mark; `ret_end` is the end to write to. */
static int pipe_with_mark(int *ret_end)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0 || write(ends[1], mark, 1) != 1)
		return -errno;
	*ret_end = ends[1];
	return ends[0];
}

int read_into_map(int fd)
{
	char *words = map_for_reading(fd);
	int end, pipe = pipe_with_mark(&end);

	return words ? said(read(pipe, words, 1)) : NO_MAP;
}

int write_at(int fd)
{
	return said(pwrite(fd, mark, 1, 0));
}

int write_vector(int fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)mark, .iov_len = 1 };

	return said(pwritev2(fd, &iov, 1, 0, 0));
}

int splice_into(int fd)
{
	int end, pipe = pipe_with_mark(&end);
	loff_t at = 0;

	return said(splice(pipe, NULL, fd, &at, 1, 0));
}

static int file_with_mark(void)
{
	int fd = memfd_create("mark", MFD_CLOEXEC);

	return fd < 0 || pwrite(fd, mark, 1, 0) != 1 ? -1 : fd;
}

int send_file_into(int fd)
{
	off_t at = 0;

	return said(sendfile(fd, file_with_mark(), &at, 1));
}

int copy_range_into(int fd)
{
	loff_t from = 0, to = 0;

	return said(copy_file_range(file_with_mark(), &from, fd, &to, 1, 0));
}

/* A spliced page belongs to the file: a later write to the pipe must not append to that page (CVE-2022-0847). */
int write_to_spliced_page(int fd)
{
	loff_t at = 0;
	int ends[2];
	char bytes[PAGE_BYTES] = { 0 };

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	/* The kernel had left this flag set in the pipe's buffers. */
	if (write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes) || read(ends[0], bytes, sizeof(bytes)) < 0)
		return -errno;
	if (splice(fd, &at, ends[1], NULL, 1, 0) < 0)
		return -errno;
	memset(bytes, *mark, sizeof(bytes));
	return said(write(ends[1], bytes, sizeof(bytes) / 2));
}

int write_to_page_in_pipe(int fd)
{
	struct iovec page = { .iov_base = map_for_reading(fd), .iov_len = 1 };
	int ends[2];

	if (!page.iov_base || pipe2(ends, O_CLOEXEC) < 0)
		return NO_MAP;
	if (vmsplice(ends[1], &page, 1, 0) < 0)
		return -errno;
	return said(write(ends[1], mark, 1));
}

int set_write_mode(int fd)
{
	return fcntl(fd, F_SETFL, O_RDWR) < 0 ? -errno : write_at(fd);
}

int punch(int fd)
{
	return said(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_BYTES));
}

int allocate(int fd)
{
	return said(fallocate(fd, 0, 0, (off_t)2 * PAGE_BYTES));
}

int cut(int fd)
{
	return said(ftruncate(fd, 0));
}

int grow(int fd)
{
	return said(ftruncate(fd, (off_t)2 * PAGE_BYTES));
}

int cut_by_path(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return said(truncate(path, 0));
}

static int opened_and(int other, int (*then)(int fd))
{
	int r = other < 0 ? other : then(other);

	fd_close(other);
	return r;
}

int reopen_to_write(int fd)
{
	return opened_and(page_reopen(fd, O_RDWR), write_at);
}

int reopen_to_map(int fd)
{
	return opened_and(page_reopen(fd, O_RDWR), map_writable);
}

static int append(int fd)
{
	return said(write(fd, mark, 1));
}

int reopen_to_append(int fd)
{
	return opened_and(page_reopen(fd, O_WRONLY | O_APPEND), append);
}

int reopen_to_cut(int fd)
{
	int r = page_reopen(fd, O_RDONLY | O_TRUNC);

	fd_close(r);
	return r < 0 ? r : 0;
}

int reopen_map_file(int fd)
{
	const char *words = map_for_reading(fd);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)(uintptr_t)words,
		 (unsigned long)(uintptr_t)words + PAGE_BYTES);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return opened_and(fd < 0 ? -errno : fd, map_writable);
}

/* Needs the right to open by handle; the mount is that of the fd. */
int reopen_by_handle(int fd)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} file = { .handle.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;

	if (name_to_handle_at(fd, "", &file.handle, &mount_id, AT_EMPTY_PATH) < 0)
		return -errno;
	fd = open_by_handle_at(fd, &file.handle, O_RDWR | O_CLOEXEC);
	return opened_and(fd < 0 ? -errno : fd, map_writable);
}

int change_page_mode(int fd)
{
	struct stat status;

	return fstat(fd, &status) < 0 ? -errno : said(fchmod(fd, status.st_mode & 07777));
}

/* A seal cannot be added with a fd that cannot write, nor to a file that is sealed against it. */
int seal(int fd)
{
	return said(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
}
