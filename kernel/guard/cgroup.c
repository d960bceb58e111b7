/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum {
	ROOT_CGROUP = 1,
	/* Deeper than any service lies: the owner of a delegated cgroup may nest others in it as deep as it likes. */
	CGROUP_DEPTH_MAX = 16,
};

/* The number of a cgroup is its inode's. */
int guard_cgroup_find(const char *path, uint64_t *ret, struct text *why)
{
	struct statfs filesystem;
	struct stat status;

	if (statfs(path, &filesystem) < 0 || stat(path, &status) < 0) {
		const int r = -errno;

		text_printf(why, "%s: %s", path, strerror(-r));
		return r;
	}
	if (filesystem.f_type != CGROUP2_SUPER_MAGIC) {
		text_printf(why, "%s is no cgroup v2", path);
		return -ENOTSUP;
	}
	*ret = status.st_ino;
	return 0;
}

int guard_cgroup_check(uint64_t id, struct text *why)
{
	if (id > ROOT_CGROUP)
		return 0;
	text_printf(why, "the root cgroup has other processes than the keeper; give another cgroup");
	return -EINVAL;
}

/* Closes the directory. */
static int cgroups_visit_below(int directory, unsigned depth, void (*visit)(uint64_t id, void *data), void *data)
{
	DIR *stream = fdopendir(directory);
	const struct dirent *entry;
	struct stat status;
	int r;

	if (!stream) {
		fd_close(directory);
		return -ENOMEM;
	}
	r = fstat(directory, &status) < 0 ? -errno : 0;
	if (r == 0)
		visit(status.st_ino, data);
	while (r == 0 && depth < CGROUP_DEPTH_MAX && (entry = readdir(stream))) {
		int child;

		if (entry->d_type != DT_DIR || streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		child = openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			r = cgroups_visit_below(child, depth + 1, visit, data);
		else if (errno != ENOENT) /* else it was removed just now */
			r = -errno;
	}
	closedir(stream);
	return r;
}

int guard_cgroups_visit(void (*visit)(uint64_t id, void *data), void *data)
{
	static const char *const paths[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_(fd_closep) int fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct statfs filesystem;
		struct stat status;

		/* In a cgroup namespace the visible root has another number. */
		if (fd >= 0 && fstatfs(fd, &filesystem) == 0 && filesystem.f_type == CGROUP2_SUPER_MAGIC &&
		    fstat(fd, &status) == 0 && status.st_ino == ROOT_CGROUP)
			return cgroups_visit_below(fd_steal(&fd), 0, visit, data);
	}
	return -ENOENT;
}
