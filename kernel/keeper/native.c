/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/native.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

static const char file_name[] = "user_events_data";

/*
 * Registrations and forks of older kernels use memory that was freed. Fixed, by the changelogs of kernel.org, in 6.12.97 ("Fix use-after-free in
 * user_event_mm_dup()"), .109 ("Clear copied tracing state before fork duplication") and .111 ("Don't destroy fields when event removal
 * fails"). Series that are not listed are not known to have all three.
 */
static const struct {
	unsigned version, series, fixed;
} safe_kernels[] = { { 6, 12, 111 } };

static bool kernel_is_safe(const char *release)
{
	unsigned version, series, patch;

	if (sscanf(release, "%u.%u.%u", &version, &series, &patch) != 3)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(safe_kernels); i++)
		if (version == safe_kernels[i].version && series == safe_kernels[i].series)
			return patch >= safe_kernels[i].fixed;
	return false;
}

/* The directory of the mount, and those above it, are root's alone: otherwise others could lead the mount elsewhere. */
static int directory_open(void)
{
	static const char *const paths[] = { "/run/userevd", NATIVE_DIRECTORY };
	int fd = -1;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct stat status;

		fd_close(fd);
		/* Whatever the umask. */
		if ((mkdir(paths[i], 0755) == 0 ? chmod(paths[i], 0755) : errno == EEXIST ? 0 : -1) < 0)
			return -errno;
		fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (fstat(fd, &status) < 0 || status.st_uid != 0 || status.st_mode & (S_IWGRP | S_IWOTH)) {
			fd_close(fd);
			return -EPERM;
		}
	}
	return fd;
}

static bool is_of_tracefs(int directory)
{
	_cleanup_(fd_closep) int fd = openat(directory, file_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs status;

	return fd >= 0 && fstatfs(fd, &status) == 0 && status.f_type == TRACEFS_MAGIC;
}

static int mount_file(int directory, const char *tracefs)
{
	_cleanup_(fd_closep) int place = -1, clone = -1;
	char path[4200];

	/* Of an earlier keeper: it is the same file. */
	if (is_of_tracefs(directory))
		return 0;
	place = openat(directory, file_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (place < 0 || snprintf(path, sizeof(path), "%s/%s", tracefs, file_name) >= (int)sizeof(path))
		return place < 0 ? -errno : -ENAMETOOLONG;
	clone = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (clone < 0 || move_mount(clone, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int keeper_native_mount(const char *tracefs, bool insist, bool is_mounted, uint64_t *ret_inode, struct text *why)
{
	_cleanup_(fd_closep) int directory = -1, file = -1;
	struct utsname name;
	struct stat status;
	int r;

	if (uname(&name) < 0 || (!insist && !kernel_is_safe(name.release))) {
		text_printf(why,
			    "Linux %s is not known to have all fixes that registrations by containers need (6.12.111); "
			    "if it has them, say Native=insist",
			    name.release);
		return -EOPNOTSUPP;
	}
	if (!tracefs || stat(tracefs, &status) < 0) {
		text_printf(why, "tracefs is not mounted");
		return -ENOENT;
	}
	if (status.st_mode & (S_IXGRP | S_IXOTH)) {
		text_printf(why,
			    "others than root can enter %s (mode %o), and could register there; mount it with mode=700",
			    tracefs, status.st_mode & 07777);
		return -EPERM;
	}
	directory = directory_open();
	if (directory >= 0 && is_mounted && !is_of_tracefs(directory)) {
		text_printf(why, "userevd-native.service has not mounted " NATIVE_DIRECTORY "; see its log");
		return -ENOENT;
	}
	r = directory < 0 ? directory : mount_file(directory, tracefs);
	if (r == 0) {
		file = openat(directory, file_name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
		r = file < 0 || fstat(file, &status) < 0 ? -errno : 0;
	}
	if (r < 0) {
		text_printf(why, "can't mount user_events_data in " NATIVE_DIRECTORY ": %s", strerror(-r));
		return r;
	}
	*ret_inode = status.st_ino;
	return fd_steal(&file);
}
