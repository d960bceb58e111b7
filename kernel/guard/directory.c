/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define BPFFS "/sys/fs/bpf"

void guard_mount_bpffs(const char *path)
{
	struct statfs status;

	if (strncmp(path, BPFFS "/", strlen(BPFFS "/")) == 0 &&
	    (statfs(BPFFS, &status) < 0 || status.f_type != BPF_FS_MAGIC))
		(void)mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700");
}

/* Other users must be able neither to add entries nor to hold the lock. */
static int guard_directory_check(int fd, const char *path, struct text *why)
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

/* -ESTALE: the directory was removed before we had its lock. */
static int directory_open(const char *path, bool make, int *ret, struct text *why)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat status;
	int r;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return make ? -ESTALE : 0;
	if (fd < 0)
		return -errno;
	r = guard_directory_check(fd, path, why);
	if (r < 0)
		return r;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_nlink == 0)
		return -ESTALE;
	*ret = fd_steal(&fd);
	return 0;
}

int guard_directory_open(const char *path, bool make, int *ret, struct text *why)
{
	int r;

	*ret = -1;
	do
		r = directory_open(path, make, ret, why);
	while (r == -ESTALE);
	if (r == 0 && *ret >= 0 && fchdir(*ret) < 0)
		r = -errno;
	if (r < 0 && why->length == 0 && (r == -EACCES || r == -EPERM))
		text_printf(why, "may not use %s (%s): it has to be root's, and userevd-guard has to be run as root",
			    path, strerror(-r));
	else if (r < 0 && why->length == 0)
		text_printf(why, "can't make %s (%s); is a BPF file system mounted? As root: mount -t bpf bpf " BPFFS,
			    path, strerror(-r));
	return r;
}

int guard_directory_visit(int (*visit)(const char *name, void *data), void *data)
{
	DIR *stream = opendir(".");
	const struct dirent *entry;
	int r = 0;

	if (!stream)
		return -errno;
	while (r == 0 && (entry = readdir(stream)))
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			r = visit(entry->d_name, data);
	closedir(stream);
	return r;
}

static int remove_one(const char *path, const struct stat *status _unused_, int kind _unused_, struct FTW *at _unused_)
{
	return remove(path);
}

int guard_unpin(const char *name)
{
	enum { FDS = 8 };

	return nftw(name, remove_one, FDS, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT ? -errno : 0;
}
