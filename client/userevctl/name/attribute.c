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

int name_write(const struct cgroups *cgroups, const char *path, const char *engine, const char *name)
{
	char value[ENGINE_NAME_MAX + 1 + TENANT_NAME_MAX + 1], directory[2 * PATH_MAX],
		claim[sizeof(NAME_CLAIM_ATTRIBUTE) + NAME_MAX];
	struct text text = text_make(value, sizeof(value));
	char *last = strrchr(path, '/');

	text_printf(&text, "%s %s", engine, name);
	/* The root of all cgroups has no name, and other paths do not end as it may: "/a/", "/." and "/a/.". */
	if (!last || !last[1] || streq(last, "/.") || !cgroup_directory(cgroups, path, directory, sizeof(directory)))
		return -ENOENT;
	if (setxattr(directory, NAME_ATTRIBUTE, value, strlen(value), 0) == 0)
		return 0;
	if (errno != EPERM)
		return -errno;
	last = strrchr(directory, '/');
	*last = '\0';
	snprintf(claim, sizeof(claim), "%s%s", NAME_CLAIM_ATTRIBUTE, last + 1);
	forget_claims(directory);
	return setxattr(directory, claim, value, strlen(value), 0) < 0 ? -errno : 0;
}
