/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/page_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "protocol/transport.h"

/*
 * The directory is beside the daemon's control socket, which belongs to one daemon at a time. Clients accept only pages on a tmpfs, so if
 * the socket is on another file system the directory is in /dev/shm. Its name has the user, the inode of the socket's directory, and the
 * socket's name.
 */

/* An existing directory has to be the owner's: no other user can have put anything into it. */
static int page_directory_check(int fd, uid_t owner, bool is_new)
{
	struct statfs system;
	struct stat status;

	if (is_new && owner != geteuid() && fchown(fd, owner, (gid_t)-1) < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_uid != owner)
		return -EPERM;
	if (fstatfs(fd, &system) < 0 || system.f_type != TMPFS_MAGIC)
		return -EOPNOTSUPP;
	return (status.st_mode & 0022) == 0 || fchmod(fd, 0700) == 0 ? 0 : -errno;
}

int page_directory_open(const char *path, uid_t owner)
{
	const bool is_new = mkdir(path, 0700) == 0;
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : page_directory_check(fd, owner, is_new);

	if (r < 0 && is_new)
		rmdir(path);
	return r < 0 ? r : fd_steal(&fd);
}

int page_directory_find(const char *control_socket, const char *kind, uid_t owner, char *ret, size_t size)
{
	const char *slash = strrchr(control_socket, '/'), *base = slash ? slash + 1 : control_socket;
	char suffix[32], parent[PATH_MAX];
	struct stat status;
	int fd = -ENAMETOOLONG;

	/* The next time root may become another user. */
	if (owner == geteuid())
		snprintf(suffix, sizeof(suffix), "%s", kind);
	else
		snprintf(suffix, sizeof(suffix), "%s-%u", kind, (unsigned)owner);
	if (snprintf(ret, size, "%s.%s", control_socket, suffix) < (int)size)
		fd = page_directory_open(ret, owner);
	if (fd >= 0)
		return fd;
	/* The socket need not exist yet. */
	snprintf(parent, sizeof(parent), "%.*s.", (int)(base - control_socket), control_socket);
	if (stat(parent, &status) < 0)
		return -errno;
	snprintf(ret, size, "/dev/shm/userevd-%u-%llu-%s.%s", (unsigned)geteuid(), (unsigned long long)status.st_ino,
		 base, suffix);
	return page_directory_open(ret, owner);
}

/* --- a read-only mount --- */

int mount_clone(const char *path, bool read_only)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY };
	_cleanup_(fd_closep) int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (read_only && mount_setattr(fd, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* A process that may not mount becomes root of a user namespace, where it may. The mount outlives these namespaces with its fd. */
static int clone_as_namespace_root(const char *path)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	int pair[2], status;
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid == 0) {
		int fd = unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -1 : mount_clone(path, true);

		if (fd >= 0)
			transport_send(theirs, "", 1, &fd, 1, 0);
		_exit(0);
	}
	fd_close(fd_steal(&theirs));
	if (pid < 0)
		return -1;
	transport_receive_fds(ours, &byte, 1, &fds, 0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return fds.count == 1 ? fdset_steal(&fds, 0) : -1;
}

/* For a service that may not mount, its unit may have made the mount, under a name beside the directory. */
static int open_prepared(const char *path)
{
	char view[PATH_MAX + 16];
	struct stat ours, prepared;
	struct statvfs mount;
	_cleanup_(fd_closep) int fd = -1;

	snprintf(view, sizeof(view), "%s.read-only", path);
	fd = open(view, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || stat(path, &ours) < 0 || fstat(fd, &prepared) < 0 || fstatvfs(fd, &mount) < 0 ||
	    ours.st_dev != prepared.st_dev || ours.st_ino != prepared.st_ino || !(mount.f_flag & ST_RDONLY))
		return -1;
	return fd_steal(&fd);
}

int page_directory_clone(const char *path)
{
	int fd = open_prepared(path);

	/* A seccomp filter may kill the process for the attempt. */
	if (fd < 0 && prctl(PR_GET_SECCOMP) == 0)
		fd = mount_clone(path, true);
	if (fd < 0 && prctl(PR_GET_SECCOMP) == 0)
		fd = clone_as_namespace_root(path);
	return fd < 0 ? -1 : fd;
}
