/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/page_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

/*
 * A page is a file on a tmpfs. The clients' fd was opened through a second mount, which is read-only: to open, map or change the file
 * in any other way fails with EROFS or EACCES for every process, the host's root in a container included. Our own fd is writable, and
 * can be mapped again after a restart.
 *
 * A client whose events are off never calls the library, so it can't notice that daemon and keeper are gone. It does look at the page.
 * Each page's open file has a lock, which lives exactly as long as a process of ours (keeper, daemon or enabler) has the page open or
 * mapped. A page without a lock is abandoned, and the next daemon or keeper sets all of its bits, bit 0 included, which never belongs to
 * an event: each client's next test of an event then calls the library. No process has to know whether it is the successor: a page in
 * use is never touched. Clients can't lock a page, since that needs a writable fd.
 *
 * An enabler may outlive its keeper for a moment. So while there are more locked pages than this process has, it looks again, less and
 * less often.
 */

enum { PAUSE_FIRST = 1, PAUSE_LAST = 60 };

static const char page_prefix[] = "page-";

struct page_name {
	char text[sizeof(page_prefix) + 20];
};

/* By the inode's number, which every process with the file sees. */
static struct page_name page_name_of(const struct stat *status)
{
	struct page_name name;

	snprintf(name.text, sizeof(name.text), "%s%llu", page_prefix, (unsigned long long)status->st_ino);
	return name;
}

static struct flock page_lock(short kind)
{
	return (struct flock){ .l_type = kind, .l_whence = SEEK_SET, .l_len = 1 };
}

/* Gives the file its name last: a file with a name is complete, and locked. */
static int page_file_make(const struct page_files *files, struct page_name *ret_name, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = openat(files->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct flock lock = page_lock(F_WRLCK);
	struct stat status;
	char path[32];
	int r = fd < 0 ? -errno : page_file_grow(fd);

	if (r < 0)
		return r;
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0 || fstat(fd, &status) < 0)
		return -errno;
	*ret_name = page_name_of(&status);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, files->directory, ret_name->text, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	*ret_fd = fd_steal(&fd);
	return 0;
}

int page_file_new(struct page_files *files, int *ret_fd, int *ret_client)
{
	_cleanup_(fd_closep) int fd = -1;
	struct page_name name;
	int r;

	r = page_file_make(files, &name, &fd);
	if (r < 0)
		return r;
	*ret_client = openat(files->read_only, name.text, O_RDONLY | O_CLOEXEC);
	if (*ret_client < 0) {
		r = -errno;
		unlinkat(files->directory, name.text, 0);
		return r;
	}
	files->held++;
	*ret_fd = fd_steal(&fd);
	return 0;
}

bool page_file_has_size(const struct stat *status)
{
	return status->st_size == WIRE_PAGE_FILE_BYTES || status->st_size == WIRE_PAGE_BYTES;
}

/*
 * The memory that any client reads, at once: later, on a full file system, to touch a map would be SIGBUS. That of the bytes behind it is
 * taken by page_file_trace(), before clients may read them.
 */
int page_file_grow(int fd)
{
	return fallocate(fd, 0, 0, WIRE_TRACES_AT) < 0 || ftruncate(fd, WIRE_PAGE_FILE_BYTES) < 0 ? -errno : 0;
}

uint8_t page_traces_byte(uint16_t state)
{
	return (uint8_t)((state & KERNEL_TRACES) >> KERNEL_TRACES_SHIFT |
			 (state & KERNEL_SILENT ? WIRE_TRACED_ONLY : 0));
}

/* The byte is there before its bit says so; without a trace it is not read. Only one process writes both. */
int page_file_trace(int fd, uint32_t bit, uint16_t state)
{
	const uint8_t byte = page_traces_byte(state), mask = (uint8_t)(1u << bit % 8);
	const bool traces = state & KERNEL_TRACES;
	uint8_t bits;

	if ((traces && pwrite(fd, &byte, 1, WIRE_TRACES_AT + bit) < 0) ||
	    pread(fd, &bits, 1, WIRE_TRACED_AT + bit / 8) != 1)
		return errno ? -errno : -EIO;
	bits = traces ? bits | mask : bits & (uint8_t)~mask;
	return pwrite(fd, &bits, 1, WIRE_TRACED_AT + bit / 8) < 0 ? -errno : 0;
}

/* Sets all bits, so that clients look for another daemon. */
static int page_abandon(int fd)
{
	uint8_t ones[WIRE_PAGE_BYTES];

	memset(ones, 0xff, sizeof(ones));
	return pwrite(fd, ones, sizeof(ones), 0) == (ssize_t)sizeof(ones) ? 0 : -EIO;
}

void page_file_free(struct page_files *files, int fd)
{
	struct stat status, found;
	struct page_name name;

	if (fd < 0)
		return;
	files->held--;
	page_abandon(fd);
	/* Another keeper's page may be in another directory. */
	if (fstat(fd, &status) == 0) {
		name = page_name_of(&status);
		if (fstatat(files->directory, name.text, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
		    found.st_dev == status.st_dev && found.st_ino == status.st_ino)
			unlinkat(files->directory, name.text, 0);
	}
	close(fd);
}

/* --- abandoned pages --- */

/* 1: a process holds the page; 0: none does, or it is not a page; or a negative errno. */
static int page_sweep(int directory, uid_t owner, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	struct flock lock = page_lock(F_RDLCK);
	struct stat status;
	int r;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(status.st_mode) || !page_file_has_size(&status) || status.st_nlink != 1 ||
	    (status.st_uid != owner && status.st_uid != geteuid()))
		return 0;
	fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK)
		return 1;
	r = page_abandon(fd);
	if (r == 0 && unlinkat(directory, name, 0) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int page_files_sweep(int directory)
{
	struct stat status;
	int fd = fstat(directory, &status) < 0 ? -1 : openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int held = 0, failed = 0;

	if (!stream) {
		fd_close(fd);
		return -errno;
	}
	while ((entry = readdir(stream))) {
		const bool is_page = strncmp(entry->d_name, page_prefix, sizeof(page_prefix) - 1) == 0;
		int r = is_page ? page_sweep(directory, status.st_uid, entry->d_name) : 0;

		held += r > 0;
		if (r < 0)
			failed = r;
	}
	closedir(stream);
	return failed < 0 ? failed : held;
}

static void page_files_look(struct page_files *files)
{
	const int held = page_files_sweep(files->directory);
	struct itimerspec when = { 0 };

	files->pause =
		held < 0 || (unsigned)held > files->held ? MAX(MIN(files->pause * 2, PAUSE_LAST), PAUSE_FIRST) : 0;
	when.it_value.tv_sec = files->pause;
	timerfd_settime(files->timer, 0, &when, NULL);
}

int page_files_init(struct page_files *files, int directory, int read_only, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	struct page_name name;
	int r;

	*files = PAGE_FILES_NONE;
	files->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (files->timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, files->timer, &event) < 0)
		return -errno;
	files->directory = directory;
	files->read_only = read_only;
	r = page_file_make(files, &name, &files->marker);
	if (r < 0)
		return r;
	files->held++;
	page_files_look(files);
	return 0;
}

void page_files_deinit(struct page_files *files)
{
	page_file_free(files, files->marker);
	files->marker = -1;
	files->timer = fd_close(files->timer);
}

void page_files_dispatch(struct page_files *files)
{
	uint64_t expired;

	if (files->timer >= 0 && read(files->timer, &expired, sizeof(expired)) == sizeof(expired))
		page_files_look(files);
}
