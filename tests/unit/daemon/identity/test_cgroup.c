/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/identity/cgroup.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "protocol/base/text.h"
#include "tests/suite.h"

static const struct cgroups v2 = { .root = "/", .mount = "/sys/fs/cgroup" };
static const struct cgroups v1 = { .root = "/", .mount = "/sys/fs/cgroup/systemd", .controller = "name=systemd" };

/* What /proc/PID/cgroup says there, or the error. */
static const char *parse(const struct cgroups *cgroups, const char *text)
{
	static char path[64];
	int r;

	string_copy(path, sizeof(path), "untouched");
	r = cgroup_parse(cgroups, text, path, sizeof(path));
	return r == 0 ? path : r == -ENODATA ? "none" : r == -ENAMETOOLONG ? "too long" : "an error that there is not";
}

TEST(v2_line_is_the_cgroup)
{
	ck_assert_str_eq(parse(&v2, "0::/user.slice/user-1000.slice\n"), "/user.slice/user-1000.slice");
	ck_assert_str_eq(parse(&v2, "0::/\n"), "/");
	ck_assert_str_eq(parse(&v2, "0::/no/newline"), "/no/newline");
	ck_assert_str_eq(parse(&v2, "0::/../outside\n"), "/../outside");
}

static const char hybrid_text[] = "12:pids:/pids\n"
				  "11:cpu,cpuacct:/cpu\n"
				  "2:name=systemd2:/not/this\n"
				  "1:name=systemd:/system.slice/a.service\n"
				  "0::/system.slice/b.service\n";

TEST(hybrid_host_uses_the_line_of_its_hierarchy)
{
	ck_assert_str_eq(parse(&v2, hybrid_text), "/system.slice/b.service");
	ck_assert_str_eq(parse(&v1, hybrid_text), "/system.slice/a.service");
}

TEST(missing_line_is_no_cgroup)
{
	ck_assert_str_eq(parse(&v2, ""), "none");
	ck_assert_str_eq(parse(&v2, "\n\n"), "none");
	ck_assert_str_eq(parse(&v2, "1:name=systemd:/a\n"), "none");
	ck_assert_str_eq(parse(&v1, "0::/a\n2:cpu:/b\n"), "none");
	ck_assert_str_eq(parse(&v1, "1:name=system:/a\n1:name=systemds:/b\n"), "none");
	ck_assert_str_eq(parse(&v2, "0:\n0::\n0\nnonsense\n"), "none");
	ck_assert_str_eq(parse(&v2, "0::\n0::/second\n"), "/second");
}

/* Found by fuzz_cgroup. Tenants that are no cgroups have paths without a slash, and nobody else may. */
TEST(path_without_slash_is_skipped)
{
	ck_assert_str_eq(parse(&v2, "::::\n"), "none");
	ck_assert_str_eq(parse(&v2, "0::policy\n"), "none");
	ck_assert_str_eq(parse(&v2, "0::policy\n0::/a\n"), "/a");
}

TEST(path_may_have_colons_and_spaces)
{
	ck_assert_str_eq(parse(&v2, "0::/a:b::c/0::/x y\n"), "/a:b::c/0::/x y");
	ck_assert_str_eq(parse(&v1, "5:cpu:/x:name=systemd:/y\n1:name=systemd:/z:\n"), "/z:");
}

TEST(path_beyond_the_buffer_is_an_error)
{
	char path[8];

	ck_assert_int_eq(cgroup_parse(&v2, "0::/123456\n", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/123456");
	ck_assert_int_eq(cgroup_parse(&v2, "0::/1234567\n", path, sizeof(path)), -ENAMETOOLONG);
	ck_assert_str_eq(path, "/123456");
}

/* A directory of our own, gone at the end. */
struct directory {
	char path[64];
};

static struct directory directory_new(void)
{
	struct directory directory = { 0 };

	make_temporary_directory(directory.path, sizeof(directory.path));
	return directory;
}

static int remove_one(const char *path, const struct stat *status _unused_, int type _unused_, struct FTW *at _unused_)
{
	return remove(path);
}

static void directory_deinit(struct directory *directory)
{
	ck_assert_int_eq(nftw(directory->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#define DIRECTORY(name) _cleanup_(directory_deinit) struct directory name = directory_new()

static struct cgroups find(const char *mountinfo)
{
	char path[] = "/tmp/userevd-mountinfo-XXXXXX";
	int fd = mkstemp(path);
	struct cgroups cgroups;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, mountinfo, strlen(mountinfo)), (ssize_t)strlen(mountinfo));
	close(fd);
	memset(&cgroups, 'x', sizeof(cgroups));
	ck_assert_int_eq(cgroups_find(path, &cgroups), 0);
	unlink(path);
	return cgroups;
}

#define ROOT   "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
#define PROC   "23 22 0:21 / /proc rw,nosuid - proc proc rw\n"
#define V2     "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
#define TMPFS  "30 23 0:27 / /sys/fs/cgroup ro,nosuid shared:4 - tmpfs tmpfs ro,mode=755\n"
#define UNIFY  "31 30 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1     "32 30 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:6 - cgroup cgroup rw,xattr,name=systemd\n"
#define CPU    "33 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:7 - cgroup cgroup rw,cpu,cpuacct\n"
#define CILIUM "40 22 0:26 / /run/cilium/cgroupv2 rw,relatime shared:9 - cgroup2 none rw\n"

TEST(mountinfo_of_a_plain_host)
{
	struct cgroups cgroups = find(ROOT PROC V2 CILIUM);

	ck_assert_str_eq(cgroups.mount, "/sys/fs/cgroup");
	ck_assert_str_eq(cgroups.root, "/");
	ck_assert_str_eq(cgroups.controller, "");
}

TEST(mountinfo_of_a_hybrid_host_in_any_order)
{
	static const char *const texts[] = { (ROOT TMPFS UNIFY V1 CPU), (ROOT TMPFS V1 CPU UNIFY) };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cgroups cgroups = find(texts[i]);

		ck_assert_str_eq(cgroups.mount, "/sys/fs/cgroup/unified");
		ck_assert_str_eq(cgroups.controller, "");
	}
}

TEST(mountinfo_of_a_v1_host)
{
	struct cgroups cgroups = find(ROOT TMPFS CPU V1);

	ck_assert_str_eq(cgroups.mount, "/sys/fs/cgroup/systemd");
	ck_assert_str_eq(cgroups.root, "/");
	ck_assert_str_eq(cgroups.controller, "name=systemd");
}

TEST(mountinfo_of_a_container_has_a_root)
{
	struct cgroups cgroups = find("99 98 0:26 /machine.slice/one.scope /sys/fs/cgroup ro - cgroup2 cgroup rw\n");

	ck_assert_str_eq(cgroups.mount, "/sys/fs/cgroup");
	ck_assert_str_eq(cgroups.root, "/machine.slice/one.scope");
	cgroups = find("99 98 0:26 /../../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	ck_assert_str_eq(cgroups.root, "/../../..");
}

TEST(mountinfo_without_cgroups_is_no_error)
{
	static const char *const texts[] = {
		"",
		(ROOT PROC),
		(ROOT TMPFS CPU),
		CILIUM,
		"\n\n - \n",
		"29 23 0:26 /\n",
		"29 23 0:26 - cgroup2\n",
		"29 23 0:26 - \n",
		"29 23 0:26 / - cgroup2\n",
		"29 23 0:26 / /sys/fs/cgroup rw\n",
		"29 23 0:26 / /sys/fs/cgroup rw - \n",
		"29 23 0:26 / /sys/fs/cgroup rw - cgroup\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cgroups cgroups = find(texts[i]);

		ck_assert_msg(!*cgroups.mount && !*cgroups.root && !*cgroups.controller, "%zu: %s", i, cgroups.mount);
		ck_assert_uint_eq(cgroup_id(&cgroups, "/"), 0);
		ck_assert(!cgroup_is_delegated(&cgroups, "/"));
	}
}

TEST(missing_mountinfo_is_an_error)
{
	struct cgroups cgroups;

	memset(&cgroups, 'x', sizeof(cgroups));
	ck_assert_int_eq(cgroups_find("/nowhere/mountinfo", &cgroups), -ENOENT);
	ck_assert_str_eq(cgroups.mount, "");
	ck_assert_str_eq(cgroups.controller, "");
}

/* What it would not see might be what is to be taken. */
TEST(truncated_mountinfo_is_an_error)
{
	struct cgroups cgroups;

	ck_assert_int_eq(cgroups_find("/", &cgroups), -EISDIR);
}

/* Which directory bears systemd's mark, and what it says. Not every file system has such attributes, so ours has none. */
static const char *marked = "";
static const char *mark = "1";

/* Whose the directories are, whoever runs the tests. */
static uid_t owner;

int stat(const char *path, struct stat *ret)
{
	int r = fstatat(AT_FDCWD, path, ret, 0);

	if (r == 0)
		ret->st_uid = owner;
	return r;
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	size_t length = strlen(mark);

	if (!streq(path, marked) || !streq(name, "user.delegate") || length > size) {
		errno = length > size ? ERANGE : ENODATA;
		return -1;
	}
	memcpy(value, mark, length);
	return (ssize_t)length;
}

static void make(const struct directory *directory, const char *path)
{
	char whole[128];

	snprintf(whole, sizeof(whole), "%s%s", directory->path, path);
	ck_assert_int_eq(mkdir(whole, 0755), 0);
}

static uint64_t inode(const struct directory *directory, const char *path)
{
	struct stat status;
	char whole[128];

	snprintf(whole, sizeof(whole), "%s%s", directory->path, path);
	ck_assert_int_eq(stat(whole, &status), 0);
	return status.st_ino;
}

static struct cgroups cgroups_in(const struct directory *directory, const char *root)
{
	struct cgroups cgroups = { 0 };

	string_copy(cgroups.mount, sizeof(cgroups.mount), directory->path);
	string_copy(cgroups.root, sizeof(cgroups.root), root);
	return cgroups;
}

TEST(id_is_the_inode_of_the_directory)
{
	DIRECTORY(directory);
	struct cgroups cgroups = cgroups_in(&directory, "/");
	uint64_t id;

	make(&directory, "/a");
	make(&directory, "/a/b");
	ck_assert_uint_eq(cgroup_id(&cgroups, "/"), inode(&directory, "/"));
	ck_assert_uint_eq(cgroup_id(&cgroups, "/a"), inode(&directory, "/a"));
	id = cgroup_id(&cgroups, "/a/b");
	ck_assert_uint_eq(id, inode(&directory, "/a/b"));
	ck_assert_uint_ne(id, cgroup_id(&cgroups, "/a"));
	ck_assert_uint_eq(cgroup_id(&cgroups, "/a/c"), 0);
}

TEST(path_outside_the_mount_has_no_id)
{
	DIRECTORY(directory);
	struct cgroups cgroups = cgroups_in(&directory, "/machine.slice/one");
	char mount[sizeof(directory.path) + 8];

	make(&directory, "/mount");
	make(&directory, "/mount/inside");
	make(&directory, "/mountfringe");
	snprintf(mount, sizeof(mount), "%s/mount", directory.path);
	string_copy(cgroups.mount, sizeof(cgroups.mount), mount);
	marked = mount;
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice/one"), inode(&directory, "/mount"));
	ck_assert(cgroup_is_delegated(&cgroups, "/machine.slice/one"));
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice/one/inside"), inode(&directory, "/mount/inside"));
	ck_assert_uint_eq(cgroup_id(&cgroups, "/"), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice"), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice/other"), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice/one/../mountfringe"), 0);
	/* Which begins like ours, and is none of ours. */
	ck_assert_uint_eq(cgroup_id(&cgroups, "/machine.slice/onefringe"), 0);
	ck_assert(!cgroup_is_delegated(&cgroups, "/machine.slice"));
}

TEST(path_with_dots_is_never_followed)
{
	DIRECTORY(directory);
	struct cgroups cgroups = cgroups_in(&directory, "/");

	make(&directory, "/a");
	marked = directory.path;
	ck_assert_uint_eq(cgroup_id(&cgroups, "/.."), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/../"), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/../../etc"), 0);
	ck_assert_uint_eq(cgroup_id(&cgroups, "/a/.."), 0);
	ck_assert(!cgroup_is_delegated(&cgroups, "/.."));
	ck_assert(!cgroup_is_delegated(&cgroups, "/a/.."));
}

TEST(only_mark_1_is_delegation)
{
	static const char *const values[] = { "1", "0", "", "yes", "11", "1234567890" };
	DIRECTORY(directory);
	struct cgroups cgroups = cgroups_in(&directory, "/");
	char path[128];

	make(&directory, "/a");
	make(&directory, "/b");
	snprintf(path, sizeof(path), "%s/a", directory.path);
	marked = path;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		mark = values[i];
		ck_assert(cgroup_is_delegated(&cgroups, "/a") == (i == 0));
	}
	mark = "1";
	ck_assert(!cgroup_is_delegated(&cgroups, "/b"));
}

TEST(cgroup_of_another_owner_is_delegated)
{
	DIRECTORY(directory);
	struct cgroups cgroups = cgroups_in(&directory, "/");

	make(&directory, "/a");
	ck_assert(!cgroup_is_delegated(&cgroups, "/a"));
	owner = 1000;
	ck_assert(cgroup_is_delegated(&cgroups, "/a"));
	ck_assert(!cgroup_is_delegated(&cgroups, "/b"));
}

static bool count_question(void *data, const char *path _unused_)
{
	++*(unsigned *)data;
	return false;
}

TEST(deep_path_has_at_most_twelve_levels_checked)
{
	char path[PATH_MAX] = "";
	unsigned questions = 0;

	for (size_t i = 0; i < 1900; i++)
		memcpy(path + 2 * i, "/a", 3);
	cgroup_cut_to_tenant(path, count_question, &questions);
	ck_assert_str_eq(path, "/a/a");
	ck_assert_uint_le(questions, 12);
}

TEST(overlong_path_has_no_id)
{
	_cleanup_(freep) char *path = malloc(3 * PATH_MAX);

	memset(path, '/', 3 * PATH_MAX);
	path[3 * PATH_MAX - 1] = '\0';
	ck_assert_uint_eq(cgroup_id(&v2, path), 0);
	ck_assert(!cgroup_is_delegated(&v2, path));
}

TEST(cgroup_of_an_exited_process_is_esrch)
{
	struct cgroups cgroups;
	char path[PATH_MAX];
	pid_t child;
	int r;

	cgroups_find(NULL, &cgroups);
	r = cgroup_of_process(&cgroups, getpid(), path, sizeof(path));
	/* Where there are no cgroups at all, there is no line. */
	ck_assert(r == 0 || r == -ENODATA);
	if (r == 0)
		ck_assert_int_eq(path[0], '/');
	child = fork();
	if (child == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_int_eq(cgroup_of_process(&cgroups, child, path, sizeof(path)), -ESRCH);
}

/* The boundaries, and in which order they were asked for. */
struct asked {
	const char *boundary;
	struct text paths;
	char buffer[256];
};

static bool is_boundary(void *data, const char *path)
{
	struct asked *asked = data;

	text_printf(&asked->paths, "%s ", path);
	return asked->boundary && streq(path, asked->boundary);
}

static const char *cut(const char *path, const char *boundary)
{
	static char tenant[128];
	struct asked asked = { .boundary = boundary };

	asked.paths = text_make(asked.buffer, sizeof(asked.buffer));
	string_copy(tenant, sizeof(tenant), path);
	cgroup_cut_to_tenant(tenant, is_boundary, &asked);
	return tenant;
}

TEST(without_a_boundary_the_second_level_is_the_tenant)
{
	ck_assert_str_eq(cut("/", NULL), "/");
	ck_assert_str_eq(cut("/a", NULL), "/a");
	ck_assert_str_eq(cut("/a/b", NULL), "/a/b");
	ck_assert_str_eq(cut("/a/b/c", NULL), "/a/b");
	ck_assert_str_eq(cut("/a/b/c/d/e", NULL), "/a/b");
	ck_assert_str_eq(cut("/user.slice/user-1000.slice/session-3.scope", NULL), "/user.slice/user-1000.slice");
	ck_assert_str_eq(cut("", NULL), "");
}

TEST(boundary_is_the_tenant_at_any_level)
{
	static const char *const boundaries[] = { "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e" };

	for (size_t i = 0; i < ARRAY_SIZE(boundaries); i++)
		ck_assert_str_eq(cut("/a/b/c/d/e", boundaries[i]), boundaries[i]);
	ck_assert_str_eq(cut("/", "/"), "/");
	ck_assert_str_eq(cut("/a", "/a"), "/a");
	/* That of another path is none of ours. */
	ck_assert_str_eq(cut("/a/b/c", "/a/b/c/d"), "/a/b");
	ck_assert_str_eq(cut("/a/b/c", "/"), "/a/b");
}

static bool always(void *data _unused_, const char *path _unused_)
{
	return true;
}

TEST(outermost_of_several_boundaries_counts)
{
	char path[] = "/a/b/c";

	cgroup_cut_to_tenant(path, always, NULL);
	ck_assert_str_eq(path, "/a");
}

TEST(ancestors_are_checked_once_from_the_outermost)
{
	struct asked asked = { 0 };
	char path[] = "/a/b/c/d";

	asked.paths = text_make(asked.buffer, sizeof(asked.buffer));
	cgroup_cut_to_tenant(path, is_boundary, &asked);
	ck_assert_str_eq(asked.buffer, "/a /a/b /a/b/c /a/b/c/d ");
}

TEST(cgroups_below_a_tenant_are_the_same_tenant)
{
	char path[64];

	for (unsigned i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "/machine.slice/box.scope/made%u/..%u", i, i);
		ck_assert_str_eq(cut(path, "/machine.slice/box.scope"), "/machine.slice/box.scope");
		ck_assert_str_eq(cut(path, NULL), "/machine.slice/box.scope");
	}
}
