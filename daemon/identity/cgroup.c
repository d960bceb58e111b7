/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/identity/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "protocol/base/mountinfo.h"

int cgroups_find(const char *mountinfo, struct cgroups *ret)
{
	FILE *file = fopen(mountinfo ? mountinfo : "/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mount_line mount;
	size_t size = 0;
	int r = 0;

	*ret = (struct cgroups){ 0 };
	if (!file)
		return -errno;
	/* An incomplete list could hide the mount of cgroup2, and clients would get wrong tenants. */
	while ((errno = 0, getline(&line, &size, file)) > 0) {
		bool v2, systemd;

		if (!mountinfo_parse(line, &mount))
			continue;
		v2 = streq(mount.type, "cgroup2") &&
		     strncmp(mount.point, "/sys/fs/cgroup", strlen("/sys/fs/cgroup")) == 0;
		systemd = streq(mount.type, "cgroup") && strstr(mount.options, "name=systemd");
		/* A second-best is taken only where nothing better was seen. */
		if (!v2 && !(systemd && !*ret->mount))
			continue;
		string_copy(ret->mount, sizeof(ret->mount), mount.point);
		string_copy(ret->root, sizeof(ret->root), mount.root);
		string_copy(ret->controller, sizeof(ret->controller), v2 ? "" : "name=systemd");
	}
	if (errno != 0)
		r = -errno;
	fclose(file);
	return r;
}

int cgroup_parse(const struct cgroups *cgroups, const char *text, char *ret_path, size_t size)
{
	while (*text) {
		size_t length = strcspn(text, "\n");
		const char *controller = memchr(text, ':', length);
		const char *path =
			controller ? memchr(controller + 1, ':', length - (size_t)(controller + 1 - text)) : NULL;
		size_t path_length = path ? length - (size_t)(path + 1 - text) : 0;

		/* The kernel writes a slash first; a malformed line may not have one. */
		if (path && path_length > 0 && path[1] == '/' &&
		    (size_t)(path - controller - 1) == strlen(cgroups->controller) &&
		    memcmp(controller + 1, cgroups->controller, strlen(cgroups->controller)) == 0) {
			if (path_length >= size)
				return -ENAMETOOLONG;
			memcpy(ret_path, path + 1, path_length);
			ret_path[path_length] = '\0';
			return 0;
		}
		text += length + (text[length] == '\n');
	}
	return -ENODATA;
}

ssize_t proc_read(pid_t pid, const char *name, char *ret, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[64], digits[3 * sizeof(pid) + 1] = "", *first = digits + sizeof(digits) - 1;
	ssize_t n;

	/* Without snprintf(), which would take more instructions than the rest of an identification. */
	do
		*--first = (char)('0' + pid % 10);
	while ((pid /= 10) > 0);
	stpcpy(stpcpy(stpcpy(stpcpy(path, "/proc/"), first), "/"), name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return n;
}

int cgroup_of_process(const struct cgroups *cgroups, pid_t pid, char *ret_path, size_t size)
{
	char text[3 * PATH_MAX];
	ssize_t n;

	text[0] = '\0';
	n = proc_read(pid, "cgroup", text, sizeof(text));
	return n < 0 ? (int)n : cgroup_parse(cgroups, text, ret_path, size);
}

bool cgroup_directory(const struct cgroups *cgroups, const char *path, char *ret, size_t size)
{
	size_t root = streq(cgroups->root, "/") ? 0 : strlen(cgroups->root);

	if (!*cgroups->mount || strncmp(path, cgroups->root, root) != 0 || (path[root] != '/' && path[root] != '\0'))
		return false;
	/* In a cgroup namespace, paths outside of it begin with "/..". */
	if (strstr(path, "/.."))
		return false;
	if (strlen(cgroups->mount) + strlen(path + root) >= size)
		return false;
	stpcpy(stpcpy(ret, cgroups->mount), path + root);
	return true;
}

uint64_t cgroup_id(const struct cgroups *cgroups, const char *path)
{
	char directory[2 * PATH_MAX], *at = directory;
	struct stat status;

	if (!cgroup_directory(cgroups, path, directory, sizeof(directory)))
		return 0;
	/* From the mount on: on the way there are directories of sysfs, which take the kernel longer than the rest. */
	if (cgroups->directory > 0)
		at += strlen(cgroups->mount) + strspn(at + strlen(cgroups->mount), "/");
	return fstatat(cgroups->directory, at, &status, AT_EMPTY_PATH) < 0 ? 0 : status.st_ino;
}

struct cgroup *cgroup_known(struct cgroups *cgroups, uint64_t id)
{
	struct cgroup *cgroup = &cgroups->known[id % ARRAY_SIZE(cgroups->known)];

	return id != 0 && cgroup->id == id ? cgroup : NULL;
}

int cgroup_get(struct cgroups *cgroups, const char *path, struct cgroup **ret)
{
	uint64_t id = cgroup_id(cgroups, path);
	char *copy;

	*ret = cgroup_known(cgroups, id);
	/* On a v1 host a cgroup can be renamed. */
	if (*ret && streq((*ret)->path, path))
		return 0;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	*ret = &cgroups->known[id % ARRAY_SIZE(cgroups->known)];
	free((*ret)->path);
	**ret = (struct cgroup){ .id = id, .path = copy };
	return 0;
}

void cgroups_forget(struct cgroups *cgroups)
{
	for (size_t i = 0; i < ARRAY_SIZE(cgroups->known); i++)
		free(cgroups->known[i].path);
	if (cgroups->directory > 0)
		close(cgroups->directory);
}

bool cgroup_is_delegated(const struct cgroups *cgroups, const char *path)
{
	char directory[2 * PATH_MAX], value[8];
	struct stat status;

	if (!cgroup_directory(cgroups, path, directory, sizeof(directory)) || stat(directory, &status) < 0)
		return false;
	/* The owner can make and mark cgroups inside at will, so all of them belong to one tenant. */
	if (status.st_uid != 0)
		return true;
	return getxattr(directory, "user.delegate", value, sizeof(value)) == 1 && value[0] == '1';
}

enum { LEVELS_MAX = 12 };

/*
 * The owner of a delegated cgroup can make cgroups inside it and mark them as delegated. That has no effect as long as the outermost
 * one is the tenant. With Tenant=no for that one, the owner could make any number of tenants inside; so there only Tenant=yes counts.
 */
bool cgroup_cut_to_tenant(const struct cgroups *cgroups, char *path, cgroup_rule *rule, void *data)
{
	bool is_boundary, lifted = false;
	enum policy_tenant said;
	char *second = NULL;
	size_t level = 0;

	for (char *end = path; *end;) {
		char rest;

		end += 1 + strcspn(end + 1, "/");
		rest = *end;
		*end = '\0';
		said = rule(data, path);
		is_boundary = said == POLICY_TENANT_YES || (!lifted && cgroup_is_delegated(cgroups, path));
		*end = rest;
		if (++level == 2)
			second = end;
		/* Containers are not nested deeper, and each level costs a path lookup. */
		if (level == LEVELS_MAX)
			break;
		if (is_boundary && said != POLICY_TENANT_NO) {
			*end = '\0';
			return true;
		}
		lifted |= is_boundary;
	}
	if (second)
		*second = '\0';
	return false;
}
