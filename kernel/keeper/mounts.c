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

	/* What is pinned in a namespace of our own would go with it. If it can't be had the guard's loader says so. */
	if (statfs(BPFFS, &status) == 0 && status.f_type != BPF_FS_MAGIC)
		mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700");
}

/* A mount of the whole of what is mounted there, that stands nowhere: it ends with its fd. */
static int clone_mount(const char *path)
{
	int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int clone_read_only(const char *path)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	_cleanup_(fd_closep) int fd = clone_mount(path);

	if (fd < 0)
		return fd;
	return mount_setattr(fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) < 0 ? -errno : fd_steal(&fd);
}

static int new_mount(const char *type)
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

/* The unique one where the kernel has it: the other may be given again to another mount. */
static int mount_id(int fd, uint64_t *ret)
{
	static const unsigned kinds[] = { STATX_MNT_ID_UNIQUE, STATX_MNT_ID };
	struct statx status;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (statx(fd, "", AT_EMPTY_PATH, kinds[i], &status) == 0 && status.stx_mask & kinds[i]) {
			*ret = status.stx_mnt_id;
			return 0;
		}
	}
	return -EOPNOTSUPP;
}

static void say_why_no_tracefs(const char *mounted, int error, struct text *why)
{
	if (error == -ENODEV)
		text_printf(why, "this kernel has no tracefs; it wants CONFIG_FTRACE=y and CONFIG_USER_EVENTS=y");
	else if (error == -EPERM && mounted)
		text_printf(why,
			    "no permission for a mount of tracefs of its own (CAP_SYS_ADMIN); run userevd as root");
	else if (error == -EPERM)
		text_printf(why, "tracefs is not mounted, and there is no permission to mount it; as root: "
				 "mount -t tracefs tracefs /sys/kernel/tracing");
	else
		text_printf(why, "can't %s tracefs: %s", mounted ? "open" : "mount", strerror(-error));
}

/* Where it is not mounted, it is mounted where it belongs, for us alone. */
static int mount_tracefs(void)
{
	_cleanup_(fd_closep) int fd = new_mount("tracefs");

	if (fd < 0)
		return fd;
	return move_mount(fd, "", AT_FDCWD, TRACEFS, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/*
 * A namespace that nobody else sees comes first: from 6.15 on whoever shares the one in which a mount was cloned may clone it
 * once more, and the guard doesn't know that one.
 */
static int clone_tracefs(const char *mounted)
{
	int r = 0;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (!mounted)
		r = mount_tracefs();
	return r < 0 ? r : clone_mount(mounted ? mounted : TRACEFS);
}

int mounts_open_tracefs(const char *mounted, struct mounts *ret, struct text *why)
{
	_cleanup_(fd_closep) int fd = clone_tracefs(mounted);
	int r;

	if (fd < 0) {
		say_why_no_tracefs(mounted, fd, why);
		return fd;
	}
	r = mount_id(fd, &ret->tracefs_id);
	if (r < 0) {
		text_printf(why, "this kernel doesn't tell mounts apart (statx, Linux 5.8)");
		return r;
	}
	ret->tracefs = fd_steal(&fd);
	return 0;
}

/* A directory of the machine's, where pages outlive this process and all of its mounts. */
static int use_directory(const char *path, struct mounts *ret)
{
	_cleanup_(fd_closep) int fd = page_directory_open(path, geteuid());
	int clone = fd < 0 ? fd : clone_read_only(path);

	if (clone < 0)
		return clone;
	ret->pages = fd_steal(&fd);
	ret->pages_read_only = clone;
	return 0;
}

/*
 * A mount that stands nowhere can't be cloned before Linux 6.15, so it has to stand somewhere: over a directory that every
 * machine has and we don't need.
 */
static int make_pages(struct mounts *ret)
{
	_cleanup_(fd_closep) int pages = new_mount("tmpfs");
	int clone;

	if (pages < 0)
		return pages;
	if (move_mount(pages, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	clone = clone_read_only("/tmp");
	if (clone < 0)
		return clone;
	ret->pages = fd_steal(&pages);
	ret->pages_read_only = clone;
	return 0;
}

static void say_what_that_costs(const char *directory, int error)
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
		say_what_that_costs(directory, r);
	if (r < 0)
		r = make_pages(ret);
	if (r < 0)
		text_printf(why, "can't make a file system for status pages (tmpfs, Linux 5.12, CAP_SYS_ADMIN): %s",
			    strerror(-r));
	return r;
}

/* Root of the host, in a container, could else open it once more and write to it, or truncate it: that takes it out of all memory. */
int mounts_open_status(const char *mounted, const char *directory, struct mounts *ret, struct text *why)
{
	int fd = clone_read_only(mounted ? mounted : TRACEFS);

	if (fd < 0) {
		text_printf(why, "can't mount tracefs read-only (CAP_SYS_ADMIN): %s", strerror(-fd));
		return fd;
	}
	ret->pages_read_only = fd;
	ret->pages = directory ? page_directory_open(directory, geteuid()) : -1;
	if (ret->pages < -1)
		say_what_that_costs(directory, ret->pages);
	ret->pages = MAX(ret->pages, -1);
	return 0;
}
