/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <fts.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Deeper than any service lies: the owner of a delegated cgroup may nest others in it as deep as it likes. */
enum { CGROUP_DEPTH_MAX = 16 };

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

static int cgroups_look_up_below(const char *root, struct guard_mounts *mounts)
{
	char *const roots[] = { (char *)(uintptr_t)root, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *entry;
	int r = tree ? 0 : -errno;

	while (r == 0 && (entry = fts_read(tree))) {
		for (size_t i = 0; i < mounts->n && entry->fts_info == FTS_D; i++)
			mounts->list[i].alive |= mounts->list[i].cgroup == entry->fts_statp->st_ino;
		if (entry->fts_info == FTS_D && entry->fts_level == CGROUP_DEPTH_MAX)
			fts_set(tree, entry, FTS_SKIP);
		/* ENOENT: it was removed just now. */
		if ((entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS) &&
		    entry->fts_errno != ENOENT)
			r = -entry->fts_errno;
	}
	if (r == 0 && errno != 0)
		r = -errno;
	if (tree)
		fts_close(tree);
	return r;
}

int guard_cgroups_look_up(struct guard_mounts *mounts)
{
	static const char *const paths[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct statfs filesystem;
		struct stat status;

		/* In a cgroup namespace the visible root has another number. */
		if (statfs(paths[i], &filesystem) == 0 && filesystem.f_type == CGROUP2_SUPER_MAGIC &&
		    stat(paths[i], &status) == 0 && status.st_ino == GUARD_ROOT_CGROUP)
			return cgroups_look_up_below(paths[i], mounts);
	}
	return -ENOENT;
}
