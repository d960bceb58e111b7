/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "protocol/protocol.h"

#define CGROUP_PREFIX "userevd-keeper-"

/* The cgroup that this process has made; "": none. */
static char own_cgroup[PATH_MAX];

/* The directory of the process's cgroup v2. */
static int cgroup_find(char *ret, size_t size)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX] = "";

	while (file && fgets(line, sizeof(line), file) && strncmp(line, "0::/", 4) != 0)
		*line = '\0';
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; *line && i < ARRAY_SIZE(mounts); i++)
		if (snprintf(ret, size, "%s%s/cgroup.procs", mounts[i], line + 3) < (int)size &&
		    access(ret, F_OK) == 0) {
			*strrchr(ret, '/') = '\0';
			return 0;
		}
	return -ENOENT;
}

static int cgroup_enter(const char *cgroup)
{
	char path[PATH_MAX + 16];
	_cleanup_(fd_closep) int fd = -1;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "0", 1) < 0 ? -errno : 0;
}

/* Makes a cgroup below `parent` for this process alone, and removes those of keepers that were killed: they are empty. */
static int cgroup_make(const char *parent)
{
	DIR *stream = opendir(parent);
	const struct dirent *entry;
	int r;

	while (stream && (entry = readdir(stream)))
		if (strncmp(entry->d_name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) == 0)
			unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
	if (stream)
		closedir(stream);
	if (snprintf(own_cgroup, sizeof(own_cgroup), "%s/" CGROUP_PREFIX "XXXXXX", parent) >= (int)sizeof(own_cgroup))
		r = -ENAMETOOLONG;
	else if (!mkdtemp(own_cgroup))
		r = -errno;
	else
		r = cgroup_enter(own_cgroup);
	if (r < 0) {
		rmdir(own_cgroup);
		*own_cgroup = '\0';
	}
	return r;
}

void keeper_guard_leave_cgroup(void)
{
	char parent[PATH_MAX];

	if (!*own_cgroup)
		return;
	string_copy(parent, sizeof(parent), own_cgroup);
	*strrchr(parent, '/') = '\0';
	if (cgroup_enter(parent) == 0)
		rmdir(own_cgroup);
	*own_cgroup = '\0';
}

/* `native`: one more option, or NULL. */
static int run_guard(const char *path, char *mount, char *cgroup, char *native, char *why, size_t size)
{
	char *const argv[] = { (char[]){ "userevd-guard" }, mount, cgroup, native, NULL };
	char *const environment[] = { NULL };
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	posix_spawn_file_actions_t actions;
	static const char prefix[] = "userevd-guard: ";
	char sentence[WIRE_SENTENCE_MAX + sizeof(prefix)];
	int pair[2], status = -1, r;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, theirs, STDERR_FILENO);
	r = -posix_spawn(&pid, path, &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	fd_close(fd_steal(&theirs));
	if (r < 0) {
		snprintf(why, size, "userevd-guard can't be started: %s", strerror(-r));
		return r;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return 0;
	/* The first line of the guard's own sentence, or its exit status. */
	n = read(ours, sentence, sizeof(sentence) - 1);
	sentence[MAX(n, 0)] = '\0';
	sentence[strcspn(sentence, "\n")] = '\0';
	if (*sentence)
		string_copy(why, size,
			    strncmp(sentence, prefix, strlen(prefix)) == 0 ? sentence + strlen(prefix) : sentence);
	else
		snprintf(why, size, "userevd-guard ended with status %#x", (unsigned)status);
	return -EOPNOTSUPP;
}

/* `inode`: 0: without native events. */
static int load_for(const char *path, uint64_t mount_id, const char *cgroup, uint64_t inode, char *why, size_t size)
{
	char option[PATH_MAX + 16], mount[48], native[48];

	snprintf(option, sizeof(option), "--cgroup=%s", cgroup);
	snprintf(mount, sizeof(mount), "--mount=%llu", (unsigned long long)mount_id);
	snprintf(native, sizeof(native), "--native=%llu", (unsigned long long)inode);
	return run_guard(path, mount, option, inode ? native : NULL, why, size);
}

int keeper_guard_load(const char *path, uint64_t mount_id, bool is_unit, char *why, size_t size)
{
	char cgroup[PATH_MAX];
	int r = cgroup_find(cgroup, sizeof(cgroup));

	if (!*path || r < 0) {
		snprintf(why, size, "%s", !*path ? "userevd-guard is not installed" : "there is no cgroup v2");
		return -ENOENT;
	}
	r = is_unit ? 0 : cgroup_make(cgroup);
	if (r < 0) {
		snprintf(why, size, "can't make a cgroup for the keeper: %s", strerror(-r));
		return r;
	}
	r = load_for(path, mount_id, is_unit ? cgroup : own_cgroup, 0, why, size);
	if (r < 0)
		keeper_guard_leave_cgroup();
	return r;
}

int keeper_guard_admit(const char *path, uint64_t mount_id, bool is_unit, uint64_t inode, char *why, size_t size)
{
	char cgroup[PATH_MAX];
	int r = cgroup_find(cgroup, sizeof(cgroup));

	return r < 0 ? r : load_for(path, mount_id, is_unit ? cgroup : own_cgroup, inode, why, size);
}
