/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/page_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/suite.h"

static char path[64];
static int directory = -1, epoll = -1;
static struct page_files files;

static void setup(void)
{
	snprintf(path, sizeof(path), "/dev/shm/test-page-file-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	directory = page_directory_open(path, geteuid());
	ck_assert_int_ge(directory, 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_eq(page_files_init(&files, directory, directory, epoll), 0);
}

/* Counts files of the directory whose names begin so. */
static unsigned count(const char *prefix)
{
	DIR *stream = opendir(path);
	const struct dirent *entry;
	unsigned n = 0;

	ck_assert_ptr_nonnull(stream);
	while ((entry = readdir(stream)))
		n += *entry->d_name != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(stream);
	return n;
}

static void teardown(void)
{
	page_files_deinit(&files);
	ck_assert_uint_eq(count("page-"), 0);
	close(epoll);
	close(directory);
	rmdir(path);
	ck_assert_int_lt(access(path, F_OK), 0);
}

static const uint8_t *map(int fd)
{
	void *memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static bool is_all(const uint8_t *page, uint8_t byte)
{
	for (size_t i = 0; i < WIRE_PAGE_BYTES; i++)
		if (page[i] != byte)
			return false;
	return true;
}

static const uint8_t *new_page(int *ret_fd)
{
	_cleanup_(fd_closep) int client = -1;

	ck_assert_int_eq(page_file_new(&files, ret_fd, &client), 0);
	ck_assert_int_eq(fcntl(client, F_GETFL) & O_ACCMODE, O_RDONLY);
	return map(client);
}

TEST(abandoned_page_has_all_bits_set)
{
	const uint8_t *page;
	int fd;

	setup();
	page = new_page(&fd);
	ck_assert(is_all(page, 0));
	ck_assert_uint_eq(count("page-"), 2);
	/* As if this process had ended. */
	close(fd);
	files.held--;
	ck_assert_int_eq(page_files_sweep(directory), 1); /* the marker */
	ck_assert(is_all(page, 0xff));
	ck_assert_uint_eq(count("page-"), 1);
	ck_assert_int_eq(page_files_sweep(directory), 1);
	teardown();
}

TEST(page_that_is_freed_has_all_bits_set)
{
	const uint8_t *page;
	int fd;

	setup();
	page = new_page(&fd);
	page_file_free(&files, fd);
	ck_assert(is_all(page, 0xff));
	ck_assert_uint_eq(count("page-"), 1);
	ck_assert_uint_eq(files.held, 1);
	teardown();
}

/* In another process, as by another daemon or keeper. */
static int sweep_elsewhere(void)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close_range(3, ~0U, 0);
		_exit(page_files_sweep(open(path, O_RDONLY | O_DIRECTORY)));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The fd of this process, a copy of it, or a writable map. */
TEST(page_in_use_is_untouched_until_it_is_closed)
{
	for (unsigned way = 0; way < 3; way++) {
		_cleanup_(fd_closep) int copy = -1;
		void *writable = MAP_FAILED;
		const uint8_t *page;
		int fd;

		setup();
		page = new_page(&fd);
		if (way == 1)
			copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (way == 2)
			writable = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (way > 0)
			fd = fd_close(fd);
		ck_assert_int_eq(sweep_elsewhere(), 2);
		ck_assert(is_all(page, 0));
		fd_close(fd);
		fd_close(copy);
		if (writable != MAP_FAILED)
			munmap(writable, WIRE_PAGE_BYTES);
		ck_assert_int_eq(sweep_elsewhere(), 1);
		ck_assert(is_all(page, 0xff));
		files.held--;
		teardown();
	}
}

TEST(locks_of_clients_do_not_hold_a_page)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	_cleanup_(fd_closep) int client = -1;
	const uint8_t *page;
	int fd;

	setup();
	ck_assert_int_eq(page_file_new(&files, &fd, &client), 0);
	close(fd);
	files.held--;
	ck_assert_int_eq(fcntl(client, F_OFD_SETLK, &lock), 0);
	lock.l_type = F_WRLCK;
	ck_assert_int_lt(fcntl(client, F_OFD_SETLK, &lock), 0);
	page = map(client);
	ck_assert_int_eq(page_files_sweep(directory), 1);
	ck_assert(is_all(page, 0xff));
	teardown();
}

/* As an enabler that ends a little after its keeper. */
TEST(page_is_abandoned_when_last_holder_ends)
{
	struct page_files successor;
	struct pollfd due;
	const uint8_t *page;
	int fd, status;
	pid_t pid;

	setup();
	page = new_page(&fd);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	close(fd);
	ck_assert_int_eq(page_files_init(&successor, directory, directory, epoll), 0);
	ck_assert(is_all(page, 0));
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	page_files_deinit(&files);
	for (unsigned i = 0; i < 60 && !is_all(page, 0xff); i++) {
		due = (struct pollfd){ .fd = successor.timer, .events = POLLIN };
		ck_assert_int_ge(poll(&due, 1, 1000), 0);
		page_files_dispatch(&successor);
	}
	ck_assert(is_all(page, 0xff));
	ck_assert_uint_eq(successor.pause, 0);
	page_files_deinit(&successor);
	ck_assert_int_eq(page_files_init(&files, directory, directory, epoll), 0);
	teardown();
}

static void make_file(const char *name, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
}

TEST(other_files_are_left_alone)
{
	static const char *const names[] = { "other",  "page-2", "page-3", "page-4",
					     "page-5", "page-6", "page-7", "page-8" };
	const uint8_t *other;
	int fd;

	setup();
	make_file("other", WIRE_PAGE_BYTES);
	make_file("page-2", WIRE_PAGE_BYTES - 1);
	make_file("page-3", 2 * WIRE_PAGE_BYTES);
	ck_assert_int_eq(symlinkat("other", directory, "page-4"), 0);
	ck_assert_int_eq(mkfifoat(directory, "page-5", 0600), 0);
	ck_assert_int_eq(mkdirat(directory, "page-6", 0700), 0);
	ck_assert_int_eq(linkat(directory, "other", directory, "page-7", 0), 0);
	make_file("page-8", WIRE_PAGE_BYTES);
	/* The file of another user, if we may make it. */
	if (geteuid() != 0 || fchownat(directory, "page-8", 1000, 1000, 0) < 0)
		unlinkat(directory, "page-8", 0);
	fd = openat(directory, "other", O_RDONLY | O_CLOEXEC);
	other = map(fd);
	close(fd);
	ck_assert_int_eq(page_files_sweep(directory), 1);
	ck_assert(is_all(other, 0));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_int_eq(unlinkat(directory, names[i], i == 5 ? AT_REMOVEDIR : 0),
				 i == ARRAY_SIZE(names) - 1 && geteuid() != 0 ? -1 : 0);
	teardown();
}

TEST(unsafe_directory_is_refused)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat status;
	char name[80];

	setup();
	rmdir(path);
	ck_assert_int_eq(access(path, F_OK), 0); /* it is in use */
	ck_assert_int_eq(page_directory_open(path, geteuid() + 1), -EPERM);
	snprintf(name, sizeof(name), "%s/link", path);
	ck_assert_int_eq(symlink(path, name), 0);
	ck_assert_int_eq(page_directory_open(name, geteuid()), -ENOTDIR);
	unlink(name);
	ck_assert_int_eq(page_directory_open("/proc/self/task", geteuid()), -EOPNOTSUPP); /* no tmpfs */
	/* A directory that other users may write to is closed to them. */
	ck_assert_int_eq(chmod(path, 0777), 0);
	fd = page_directory_open(path, geteuid());
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0700);
	teardown();
}

TEST(directory_is_found_again_for_the_same_socket)
{
	char one[PATH_MAX], other[PATH_MAX], control[] = "/proc/no-such-socket";
	int fd;

	setup();
	fd = page_directory_find(control, "pages", geteuid(), one, sizeof(one));
	ck_assert_int_ge(fd, 0);
	close(fd);
	fd = page_directory_find(control, "pages", geteuid(), other, sizeof(other));
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_str_eq(one, other);
	fd = page_directory_find("/proc/another", "pages", geteuid(), other, sizeof(other));
	close(fd);
	ck_assert_str_ne(one, other);
	rmdir(one);
	rmdir(other);
	teardown();
}
