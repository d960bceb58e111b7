/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "client/userevctl/name/name.h"
#include "daemon/identity/cgroup.h"
#include "protocol/base/text.h"

/* A cgroup has room for 128 such attributes, so those of cgroups that have ended are removed first. */
static void forget_claims(const char *around)
{
	char names[32768], child[2 * PATH_MAX + NAME_MAX];
	ssize_t size = listxattr(around, names, sizeof(names));
	struct stat status;

	for (const char *name = names; name < names + size; name += strlen(name) + 1) {
		if (strncmp(name, NAME_CLAIM_ATTRIBUTE, strlen(NAME_CLAIM_ATTRIBUTE)) != 0)
			continue;
		snprintf(child, sizeof(child), "%s/%s", around, name + strlen(NAME_CLAIM_ATTRIBUTE));
		if (stat(child, &status) < 0 && errno == ENOENT)
			removexattr(around, name);
	}
}

/* With the cgroup's inode: another cgroup may have the same path later. */
static int claim_write(char *directory, const char *name)
{
	char attribute[sizeof(NAME_CLAIM_ATTRIBUTE) + NAME_MAX], value[NAME_VALUE_MAX];
	char *slash = strrchr(directory, '/');
	struct stat status;

	if (stat(directory, &status) < 0)
		return -errno;
	snprintf(value, sizeof(value), "%llu %s", (unsigned long long)status.st_ino, name);
	*slash = '\0';
	snprintf(attribute, sizeof(attribute), "%s%s", NAME_CLAIM_ATTRIBUTE, slash + 1);
	forget_claims(directory);
	return setxattr(directory, attribute, value, strlen(value), 0) < 0 ? -errno : 0;
}

int name_write(const struct cgroups *cgroups, const char *path, const char *engine, const char *name)
{
	char value[NAME_VALUE_MAX], directory[2 * PATH_MAX];
	struct text text = text_make(value, sizeof(value));
	char *last = strrchr(path, '/');

	text_printf(&text, "%s %s", engine, name);
	/* The root of all cgroups has no name, and other paths do not end as it may: "/a/", "/." and "/a/.". */
	if (!last || !last[1] || streq(last, "/.") || !cgroup_directory(cgroups, path, directory, sizeof(directory)))
		return -ENOENT;
	if (setxattr(directory, NAME_ATTRIBUTE, value, strlen(value), 0) == 0)
		return 0;
	return errno == EPERM ? claim_write(directory, value) : -errno;
}
