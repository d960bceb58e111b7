/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define BPFFS "/sys/fs/bpf"

static bool is_bpffs(const char *path)
{
	struct statfs status;

	return statfs(path, &status) == 0 && status.f_type == BPF_FS_MAGIC;
}

void guard_mount_bpffs(const char *path)
{
	if (strncmp(path, BPFFS "/", strlen(BPFFS "/")) == 0 && !is_bpffs(BPFFS))
		(void)mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700");
}

static void say_why_closed(const char *path, int error, struct text *why)
{
	if (error == -EACCES || error == -EPERM)
		text_printf(why, "may not use %s (%s): it has to be root's, and userevd-guard has to be run as root",
			    path, strerror(-error));
	else
		text_printf(why, "can't make %s (%s); is a BPF file system mounted? As root: mount -t bpf bpf " BPFFS,
			    path, strerror(-error));
}

/* Others must not be able to put something there, nor to keep us waiting for the lock. */
static int check_owner(int fd, const char *path, struct text *why)
{
	struct statfs filesystem;
	struct stat status;

	if (fstatfs(fd, &filesystem) < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (filesystem.f_type != BPF_FS_MAGIC) {
		text_printf(why, "%s isn't in a BPF file system; as root: mount -t bpf bpf " BPFFS, path);
		return -ENOTSUP;
	}
	if (status.st_uid != geteuid() || status.st_mode & (S_IWGRP | S_IWOTH | S_IRGRP | S_IROTH)) {
		text_printf(why, "%s is open to others than user %u; remove it, or give another --pin=DIR", path,
			    geteuid());
		return -EPERM;
	}
	return 0;
}

/* 0, or -ESTALE: while we waited for the lock somebody took the directory away. */
static int lock(int fd)
{
	struct stat status;

	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	return status.st_nlink == 0 ? -ESTALE : 0;
}

static int open_directory(const char *path, bool make, int *ret, struct text *why)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST) {
		r = -errno;
		say_why_closed(path, r, why);
		return r;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return make ? -ESTALE : 0;
	if (fd < 0) {
		r = -errno;
		say_why_closed(path, r, why);
		return r;
	}
	r = check_owner(fd, path, why);
	if (r == 0)
		r = lock(fd);
	if (r == 0)
		*ret = fd_steal(&fd);
	return r;
}

int guard_directory_open(const char *path, bool make, struct guard_directory *ret, struct text *why)
{
	int r;

	ret->fd = -1;
	if (strlen(path) >= sizeof(ret->path)) {
		text_printf(why, "the name of the directory is too long");
		return -ENAMETOOLONG;
	}
	do
		r = open_directory(path, make, &ret->fd, why);
	while (r == -ESTALE);
	string_copy(ret->path, sizeof(ret->path), path);
	return r;
}

void guard_directory_close(struct guard_directory *directory)
{
	directory->fd = fd_close(directory->fd);
}

struct guard_pin guard_pin(const struct guard_directory *directory, const char *format, ...)
{
	struct guard_pin pin;
	size_t length;
	va_list arguments;

	string_copy(pin.path, sizeof(pin.path), directory->path);
	length = strlen(pin.path);
	pin.path[length++] = '/';
	va_start(arguments, format);
	vsnprintf(pin.path + length, sizeof(pin.path) - length, format, arguments);
	va_end(arguments);
	return pin;
}

int guard_directory_visit(const struct guard_directory *directory, guard_visitor *visit, void *data)
{
	DIR *stream = opendir(directory->path);
	const struct dirent *entry;
	int r = 0;

	if (!stream)
		return -errno;
	while (r == 0 && (entry = readdir(stream)))
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			r = visit(directory, entry->d_name, data);
	closedir(stream);
	return r;
}

static int unpin_one(const struct guard_directory *directory, const char *name, _unused_ void *data)
{
	return guard_unpin(directory, name);
}

/* Of the directories below ours none has another in it. */
int guard_unpin(const struct guard_directory *directory, const char *name)
{
	struct guard_directory below = { .fd = -1 };
	struct guard_pin pin = guard_pin(directory, "%s", name);
	int r;

	if (unlink(pin.path) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	string_copy(below.path, sizeof(below.path), pin.path);
	r = guard_directory_visit(&below, unpin_one, NULL);
	if (r < 0)
		return r;
	return rmdir(pin.path) < 0 ? -errno : 0;
}

int guard_directory_remove(struct guard_directory *directory)
{
	int r = guard_directory_visit(directory, unpin_one, NULL);

	if (r < 0)
		return r;
	return rmdir(directory->path) < 0 ? -errno : 0;
}
