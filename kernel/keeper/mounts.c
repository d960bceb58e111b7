/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* glibc has these from 2.36 on, the kernel from 5.2 (mount_setattr: 5.12; the unique id: 6.8). */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

#define TRACEFS "/sys/kernel/tracing"
#define BPFFS	"/sys/fs/bpf"

void mounts_prepare(void)
{
	struct statfs status;

	/* A mount in our own namespace would end with it, and the pinned guard with the mount. On failure the guard's loader says why. */
	if (statfs(BPFFS, &status) == 0 && status.f_type != BPF_FS_MAGIC)
		mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700");
}

static int mount_new(const char *type)
{
	_cleanup_(fd_closep) int context = fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (context < 0)
		return -errno;
	if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? -errno : fd;
}

static void explain_no_tracefs(const char *mounted, int error, struct text *why)
{
	if (error == -ENODEV)
		text_printf(why, "this kernel has no tracefs; it wants CONFIG_FTRACE=y and CONFIG_USER_EVENTS=y");
	else if (error == -EPERM)
		text_printf(why,
			    "no permission for a mount of tracefs of its own (CAP_SYS_ADMIN); run userevd as root");
	else
		text_printf(why, "can't %s tracefs: %s", mounted ? "open" : "mount", strerror(-error));
}

/*
 * In a mount namespace of our own: from Linux 6.15 on a process that shares the namespace of a clone may clone it again, and the
 * guard would not know that mount. If tracefs is not mounted it is mounted at the usual place, for this namespace alone.
 */
static int clone_tracefs(const char *mounted)
{
	_cleanup_(fd_closep) int fd = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mounted)
		return mount_clone(mounted, false);
	fd = mount_new("tracefs");
	if (fd < 0)
		return fd;
	if (move_mount(fd, "", AT_FDCWD, TRACEFS, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return mount_clone(TRACEFS, false);
}

int mounts_open_tracefs(const char *mounted, struct mounts *ret, struct text *why)
{
	/* The kernel gives the unique id if it has it: the other one may be given to a later mount. */
	const unsigned ids = STATX_MNT_ID_UNIQUE | STATX_MNT_ID;
	_cleanup_(fd_closep) int fd = clone_tracefs(mounted);
	struct statx status;

	if (fd < 0) {
		explain_no_tracefs(mounted, fd, why);
		return fd;
	}
	if (statx(fd, "", AT_EMPTY_PATH, ids, &status) < 0 || !(status.stx_mask & ids)) {
		text_printf(why, "this kernel doesn't tell mounts apart (statx, Linux 5.8)");
		return -EOPNOTSUPP;
	}
	ret->tracefs_id = status.stx_mnt_id;
	ret->tracefs = fd_steal(&fd);
	return 0;
}

/* A directory of the machine, where pages outlive this process and its mounts. */
static int use_directory(const char *path, struct mounts *ret)
{
	_cleanup_(fd_closep) int fd = page_directory_open(path, geteuid());
	int clone = fd < 0 ? fd : mount_clone(path, true);

	if (clone < 0)
		return clone;
	ret->pages = fd_steal(&fd);
	ret->pages_read_only = clone;
	return 0;
}

/* Before Linux 6.15 a mount has to be attached somewhere to be cloned: over a directory that exists everywhere and we don't need. */
static int make_pages(struct mounts *ret)
{
	_cleanup_(fd_closep) int pages = mount_new("tmpfs");
	int clone;

	if (pages < 0)
		return pages;
	if (move_mount(pages, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	clone = mount_clone("/tmp", true);
	if (clone < 0)
		return clone;
	ret->pages = fd_steal(&pages);
	ret->pages_read_only = clone;
	return 0;
}

static void warn_about_directory(const char *directory, int error)
{
	fprintf(stderr,
		"userevd-keeper: can't use %s (%s): should daemon and keeper be killed at once, programs whose events are off "
		"don't find the next ones\n",
		directory, error == -EOPNOTSUPP ? "it is not on a tmpfs" : strerror(-error));
}

int mounts_open_pages(const char *directory, struct mounts *ret, struct text *why)
{
	int r = directory ? use_directory(directory, ret) : -ENOENT;

	if (r < 0 && directory)
		warn_about_directory(directory, r);
	if (r < 0)
		r = make_pages(ret);
	if (r < 0)
		text_printf(why, "can't make a file system for status pages (tmpfs, Linux 5.12, CAP_SYS_ADMIN): %s",
			    strerror(-r));
	return r;
}

/* Read-only, or the host's root in a container could reopen the page for writing, or truncate it, which removes it from all memory. */
int mounts_open_status(const char *mounted, const char *directory, struct mounts *ret, struct text *why)
{
	int fd = mount_clone(mounted ? mounted : TRACEFS, true);

	if (fd < 0) {
		text_printf(why, "can't mount tracefs read-only (CAP_SYS_ADMIN): %s", strerror(-fd));
		return fd;
	}
	ret->pages_read_only = fd;
	ret->pages = directory ? page_directory_open(directory, geteuid()) : -1;
	if (ret->pages < -1)
		warn_about_directory(directory, ret->pages);
	ret->pages = MAX(ret->pages, -1);
	return 0;
}
