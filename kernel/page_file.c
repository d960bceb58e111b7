/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/page_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

/*
 * A page is a file on a tmpfs. What clients get was opened through a second mount, which is read-only: to open, map or change
 * it in any other way is EROFS or EACCES, for everybody, the host's root in a container included. Our own fd is writable and
 * can be mapped again after a restart.
 *
 * A client whose events are off never enters the library, so it can't notice that daemon and keeper are gone. What it does
 * look at is the page. Each page's open file carries a lock, which lives exactly as long as some process of ours has the page
 * open or mapped: keeper, daemon, or an enabler. A page that nobody locks is abandoned, and the next daemon or keeper sets all
 * of its bits, bit 0 included, which never stands for an event: each client's next test enters the library then. So nobody has
 * to be certain of being the successor: a page in use is never touched. Clients can't take such a lock, as it needs a writable fd.
 *
 * An enabler may outlive its keeper for a moment. So as long as there are more locked pages than this process has, it looks
 * again, less and less often.
 */

enum { PAUSE_FIRST = 1, PAUSE_LAST = 60 };

static const char prefix[] = "page-";

struct page_name {
	char text[sizeof(prefix) + 20];
};

/* By what is the same for all who have the file open. */
static struct page_name name_of(const struct stat *status)
{
	struct page_name name;

	snprintf(name.text, sizeof(name.text), "%s%llu", prefix, (unsigned long long)status->st_ino);
	return name;
}

static struct flock lock_of(short kind)
{
	return (struct flock){ .l_type = kind, .l_whence = SEEK_SET, .l_len = 1 };
}

/* It gets its name last: what has one is whole, and locked. */
static int link_file(int directory, int fd, struct page_name *ret)
{
	struct flock lock = lock_of(F_WRLCK);
	struct stat status;
	char path[32];

	/* All of its memory now: a full file system must not become a signal for who writes to a map of it. */
	if (fallocate(fd, 0, 0, WIRE_PAGE_BYTES) < 0 || fcntl(fd, F_OFD_SETLK, &lock) < 0 || fstat(fd, &status) < 0)
		return -errno;
	*ret = name_of(&status);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, directory, ret->text, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int make_file(const struct page_files *files, struct page_name *ret_name, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = openat(files->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : link_file(files->directory, fd, ret_name);

	if (r == 0)
		*ret_fd = fd_steal(&fd);
	return r;
}

int page_file_new(struct page_files *files, int *ret_fd, int *ret_client)
{
	_cleanup_(fd_closep) int fd = -1, client = -1;
	struct page_name name;
	int r;

	r = make_file(files, &name, &fd);
	if (r < 0)
		return r;
	client = openat(files->read_only, name.text, O_RDONLY | O_CLOEXEC);
	if (client < 0) {
		r = -errno;
		unlinkat(files->directory, name.text, 0);
		return r;
	}
	files->held++;
	*ret_client = fd_steal(&client);
	*ret_fd = fd_steal(&fd);
	return 0;
}

void page_file_adopt(struct page_files *files)
{
	files->held++;
}

/* A byte that could not be written leaves clients of that page where they are. */
static int abandon(int fd)
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
	abandon(fd);
	/* One that came from another keeper may be in another directory. */
	if (fstat(fd, &status) == 0) {
		name = name_of(&status);
		if (fstatat(files->directory, name.text, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
		    found.st_dev == status.st_dev && found.st_ino == status.st_ino)
			unlinkat(files->directory, name.text, 0);
	}
	close(fd);
}

/* --- what others left behind --- */

static bool is_page_name(const char *name)
{
	const size_t length = sizeof(prefix) - 1;

	return strncmp(name, prefix, length) == 0 && name[length] != '\0' &&
	       name[length + strspn(name + length, "0123456789")] == '\0';
}

static bool is_page(const struct stat *status, uid_t owner)
{
	return S_ISREG(status->st_mode) && status->st_size == WIRE_PAGE_BYTES && status->st_nlink == 1 &&
	       (status->st_uid == owner || status->st_uid == geteuid());
}

/* Only who could write to it has such a lock. */
static bool is_held(int fd)
{
	struct flock lock = lock_of(F_RDLCK);

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* 1: somebody holds it; 0: nobody, or it is no page; or a negative errno. */
static int sweep_file(int directory, uid_t owner, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat status;
	int r;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!is_page(&status, owner))
		return 0;
	fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (is_held(fd))
		return 1;
	r = abandon(fd);
	if (r == 0 && unlinkat(directory, name, 0) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int page_files_sweep(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), held = 0, failed = 0;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat status;

	if (!stream || fstat(fd, &status) < 0) {
		failed = -errno;
		if (stream)
			closedir(stream);
		else
			fd_close(fd);
		return failed;
	}
	while ((entry = readdir(stream))) {
		int r = is_page_name(entry->d_name) ? sweep_file(directory, status.st_uid, entry->d_name) : 0;

		held += r > 0;
		if (r < 0)
			failed = r;
	}
	closedir(stream);
	return failed < 0 ? failed : held;
}

static void sweep(struct page_files *files)
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
	if (directory < 0)
		return 0;
	files->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (files->timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, files->timer, &event) < 0)
		return -errno;
	files->directory = directory;
	files->read_only = read_only;
	r = make_file(files, &name, &files->marker);
	if (r < 0)
		return r;
	files->held++;
	sweep(files);
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
		sweep(files);
}
