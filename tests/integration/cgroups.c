/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/cgroups.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <linux/magic.h>

#include "tests/integration/machine.h"

static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
static char top[64];	  /* our own cgroup's directory; "" where there can be none */
static char why_not[128]; /* then */

void remove_cgroup(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	char below[512];
	int fd;

	while (directory && (entry = readdir(directory))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		remove_cgroup(below);
	}
	if (directory)
		closedir(directory);
	snprintf(below, sizeof(below), "%s/cgroup.kill", path);
	fd = open(below, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) < 0)
		printf("cannot end what is in %s: %s\n", path, strerror(errno));
	fd_close(fd);
	for (int i = 0; i < 2000 && rmdir(path) < 0 && errno == EBUSY; i++)
		usleep(10000);
}

/* Removes cgroups of a run that was killed. */
static void remove_stale_cgroups(const char *mount)
{
	DIR *directory = opendir(mount);
	const struct dirent *entry;
	char path[512];
	int pid;

	while (directory && (entry = readdir(directory))) {
		if (sscanf(entry->d_name, "userevd-test-%d", &pid) != 1 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", mount, entry->d_name);
		remove_cgroup(path);
	}
	if (directory)
		closedir(directory);
}

/* Whether /proc shows this process in that cgroup, as the daemon will see it. */
static bool are_we_in(const char *path)
{
	char wanted[512];

	snprintf(wanted, sizeof(wanted), "0::%s\n", path);
	return file_has_line("/proc/self/cgroup", wanted, "");
}

static bool is_of_use(const char *cgroup, const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(actor_join(cgroup) && are_we_in(path) ? EXIT_SUCCESS : EXIT_FAILURE);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

void cgroups_find_room(void)
{
	/* All cgroups of another user are one tenant. */
	if (geteuid() != 0) {
		string_copy(why_not, sizeof(why_not), "only root's cgroups are tenants of their own");
		return;
	}
	string_copy(why_not, sizeof(why_not), "no cgroup2 file system is mounted at /sys/fs/cgroup or below");
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		struct statfs status;

		if (statfs(mounts[i], &status) < 0 || status.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		remove_stale_cgroups(mounts[i]);
		snprintf(top, sizeof(top), "%s/userevd-test-%d", mounts[i], (int)getpid());
		if (mkdir(top, 0755) == 0) {
			if (is_of_use(top, strrchr(top, '/')))
				return;
			snprintf(why_not, sizeof(why_not),
				 "processes cannot be put into cgroups made in %s, or do not see it", mounts[i]);
			remove_cgroup(top);
		} else {
			snprintf(why_not, sizeof(why_not), "cannot make a cgroup in %s: %s", mounts[i],
				 strerror(errno));
		}
		top[0] = '\0';
	}
}

bool need_cgroups(const char *what)
{
	char sentence[256];

	snprintf(sentence, sizeof(sentence), "%s: %s", what, why_not);
	return *top || not_possible(sentence);
}

void cgroups_remove_all(void)
{
	if (*top)
		remove_cgroup(top);
}

int run_tests_in_cgroups(void)
{
	int status;

	cgroups_find_room();
	status = run_all_tests();
	cgroups_remove_all();
	return status;
}

const char *why_no_cgroups(void)
{
	return *top ? NULL : why_not;
}

const char *top_cgroup(void)
{
	return top;
}

const char *make_cgroup(const char *name)
{
	static char paths[16][192];
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];
	size_t length = strlen(top);

	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	while (path[length]) {
		char rest;

		length += 1 + strcspn(path + length + 1, "/");
		rest = path[length];
		path[length] = '\0';
		ck_assert_msg(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
		path[length] = rest;
	}
	return path;
}

const char *cgroup_path(const char *directory)
{
	return directory + (strrchr(top, '/') - top);
}

void move_to(pid_t pid, const char *cgroup)
{
	char path[256], number[16];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	snprintf(number, sizeof(number), "%d", (int)pid);
	write_file(path, number);
}

struct actor actor_in(const struct fixture *fixture, const char *cgroup, uid_t uid)
{
	return actor_new(fixture->socket, &(struct actor_as){ .cgroup = cgroup, .uid = uid });
}

bool delegate(const char *cgroup)
{
	return setxattr(cgroup, "user.delegate", "1", 1, 0) == 0 ||
	       not_possible("a delegated cgroup: setxattr() fails");
}

static void see_tenant(void *data, struct cursor row)
{
	struct seen_tenants *seen = data;
	struct seen_tenant *tenant = &seen->tenant[seen->n++];

	ck_assert_uint_le(seen->n, ARRAY_SIZE(seen->tenant));
	row_get_string(row, "tenant", tenant->path, sizeof(tenant->path));
	tenant->cgroup_id = row_get_u64(row, "cgroup_id");
	tenant->connections = row_get_u64(row, "connections");
	tenant->events = row_get_u64(row, "events");
	tenant->lingering = row_get_u64(row, "lingering");
}

void see_tenants(const struct fixture *fixture, struct seen_tenants *ret)
{
	ret->n = 0;
	ask_rows(fixture, KIND_TENANTS, see_tenant, ret);
}

bool is_tenant(const struct seen_tenant *tenant, const char *cgroup)
{
	struct stat status;

	return streq(tenant->path, cgroup_path(cgroup)) && stat(cgroup, &status) == 0 &&
	       status.st_ino == tenant->cgroup_id;
}

struct seen_tenants expect_these_tenants(const struct fixture *fixture, const char *const *cgroups)
{
	struct seen_tenants seen;
	size_t n = 0;

	see_tenants(fixture, &seen);
	for (; cgroups[n]; n++)
		ck_assert_msg(n < seen.n && is_tenant(&seen.tenant[n], cgroups[n]), "tenant %zu is %s, not %s", n,
			      seen.tenant[n].path, cgroups[n]);
	ck_assert_uint_eq(seen.n, n);
	return seen;
}

static void see_holders(void *data, struct cursor row)
{
	struct seen_holder *seen = data;
	struct row_field holders;
	struct cursor items, item;
	char event[64];

	row_get_string(row, "event", event, sizeof(event));
	if (!streq(event, seen->event))
		return;
	seen->total = row_get_u64(row, "holders_total");
	ck_assert(row_find(row, "holders", &holders));
	items = cursor_make(holders.value, holders.length);
	while (row_next_item(&items, &item) > 0) {
		seen->n++;
		seen->pid = row_get_u64(item, "pid");
		seen->uid = row_get_u64(item, "uid");
		row_get_string(item, "comm", seen->comm, sizeof(seen->comm));
		row_get_string(item, "tenant", seen->tenant, sizeof(seen->tenant));
	}
}

struct seen_holder holder_of(const struct fixture *fixture, const char *event)
{
	struct seen_holder seen = { .event = event };

	ask_rows(fixture, KIND_EVENTS, see_holders, &seen);
	return seen;
}
