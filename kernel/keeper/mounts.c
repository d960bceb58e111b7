/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* glibc has these from 2.36 on, the kernel from 5.2 (mount_setattr: 5.12; the unique id: 6.8). */
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

#define BPFFS "/sys/fs/bpf"

void mounts_prepare(void)
{
	struct statfs status;

	/* A mount in our own namespace would end with it, and the pinned guard with the mount. On failure the guard's loader says why. */
	if (statfs(BPFFS, &status) == 0 && status.f_type != BPF_FS_MAGIC)
		mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700");
}

/*
 * In a mount namespace of our own: from Linux 6.15 on a process that shares the namespace of a clone may clone it again, and the
 * guard would not know that mount. If tracefs is not mounted it is mounted at the usual place, for this namespace alone.
 */
static int clone_tracefs(const char *mounted)
{
	_cleanup_(fd_closep) int context = -1, fd = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mounted)
		return mount_clone(mounted, false);
	context = fsopen("tracefs", FSOPEN_CLOEXEC);
	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0 || move_mount(fd, "", AT_FDCWD, KEEPER_TRACEFS, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return mount_clone(KEEPER_TRACEFS, false);
}

int mounts_open_tracefs(const char *mounted, struct mounts *ret, struct text *why)
{
	/* The kernel gives the unique id if it has it: the other one may be given to a later mount. */
	const unsigned ids = STATX_MNT_ID_UNIQUE | STATX_MNT_ID;
	_cleanup_(fd_closep) int fd = clone_tracefs(mounted);
	struct statx status;

	if (fd == -ENODEV)
		text_printf(why, "this kernel has no tracefs; it wants CONFIG_FTRACE=y and CONFIG_USER_EVENTS=y");
	else if (fd == -EPERM)
		text_printf(why,
			    "no permission for a mount of tracefs of its own (CAP_SYS_ADMIN); run userevd as root");
	else if (fd < 0)
		text_printf(why, "can't %s tracefs: %s", mounted ? "open" : "mount", strerror(-fd));
	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH, ids, &status) < 0 || !(status.stx_mask & ids)) {
		text_printf(why, "this kernel doesn't tell mounts apart (statx, Linux 5.8)");
		return -EOPNOTSUPP;
	}
	ret->tracefs_id = status.stx_mnt_id;
	ret->tracefs = fd_steal(&fd);
	return 0;
}

int mounts_open_pages(const char *directory, const char *read_only, struct mounts *ret, struct text *why)
{
	/* Of the machine: there, pages outlive this process and its mounts. */
	int fd = page_directory_open(directory, geteuid());

	if (fd < 0) {
		text_printf(why, "can't use %s for status pages: %s", directory,
			    fd == -EOPNOTSUPP ? "it is not on a tmpfs" : strerror(-fd));
		return fd;
	}
	ret->pages = fd;
	fd = mount_clone(read_only, true);
	if (fd < 0) {
		text_printf(why, "can't mount %s read-only (Linux 5.12, CAP_SYS_ADMIN): %s", read_only, strerror(-fd));
		return fd;
	}
	ret->pages_read_only = fd;
	return 0;
}
