/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/identity/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/suite.h"

static const struct cgroups v2 = { .root = "/", .mount = "/sys/fs/cgroup" };
static const struct cgroups v1 = { .root = "/", .mount = "/sys/fs/cgroup/systemd", .controller = "name=systemd" };

TEST(cgroup_is_read_from_the_line_of_its_hierarchy)
{
	static const char hybrid[] = "12:pids:/pids\n11:cpu,cpuacct:/cpu\n2:name=systemd2:/not/this\n"
				     "1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n";
	static const struct {
		const struct cgroups *cgroups;
		const char *text, *path; /* NULL: there is none */
	} cases[] = {
		{ &v2, "0::/user.slice/user-1000.slice\n", "/user.slice/user-1000.slice" },
		{ &v2, "0::/\n", "/" },
		{ &v2, "0::/no/newline", "/no/newline" },
		{ &v2, "0::/../outside\n", "/../outside" },
		{ &v2, hybrid, "/system.slice/b.service" },
		{ &v1, hybrid, "/system.slice/a.service" },
		{ &v2, "", NULL },
		{ &v2, "\n\n", NULL },
		{ &v2, "1:name=systemd:/a\n", NULL },
		{ &v1, "0::/a\n2:cpu:/b\n", NULL },
		{ &v1, "1:name=system:/a\n1:name=systemds:/b\n", NULL },
		{ &v2, "0:\n0::\n0\nnonsense\n", NULL },
		{ &v2, "0::\n0::/second\n", "/second" },
		/* Found by fuzz_cgroup. Only tenants without a cgroup have paths without a slash. */
		{ &v2, "::::\n", NULL },
		{ &v2, "0::policy\n", NULL },
		{ &v2, "0::policy\n0::/a\n", "/a" },
		/* A path may have colons and blanks. */
		{ &v2, "0::/a:b::c/0::/x y\n", "/a:b::c/0::/x y" },
		{ &v1, "5:cpu:/x:name=systemd:/y\n1:name=systemd:/z:\n", "/z:" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[64] = "untouched";
		int r = cgroup_parse(cases[i].cgroups, cases[i].text, path, sizeof(path));

		ck_assert_msg(r == (cases[i].path ? 0 : -ENODATA), "%s: %d", cases[i].text, r);
		ck_assert_str_eq(path, cases[i].path ? cases[i].path : "untouched");
	}
}

TEST(path_beyond_the_buffer_is_an_error)
{
	char path[8];

	ck_assert_int_eq(cgroup_parse(&v2, "0::/123456\n", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/123456");
	ck_assert_int_eq(cgroup_parse(&v2, "0::/1234567\n", path, sizeof(path)), -ENAMETOOLONG);
	ck_assert_str_eq(path, "/123456");
}

/* Of the test, gone at its end. */
static char directory[64];

static bool begin(void)
{
	make_temporary_directory(directory, sizeof(directory));
	return true;
}

static void end(const bool *has_directory _unused_)
{
	remove_directory(directory);
}

#define DIRECTORY _cleanup_(end) bool has_directory _unused_ = begin()

static struct cgroups find(const char *mountinfo)
{
	_cleanup_(fd_closep) int fd = memfd_create("mountinfo", MFD_CLOEXEC);
	struct cgroups cgroups;
	char path[32];

	ck_assert_int_eq(write(fd, mountinfo, strlen(mountinfo)), (ssize_t)strlen(mountinfo));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(&cgroups, 'x', sizeof(cgroups));
	ck_assert_int_eq(cgroups_find(path, &cgroups), 0);
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

TEST(mount_of_cgroups_is_found)
{
	static const struct {
		const char *text, *mount, *root, *controller;
	} cases[] = {
		{ ROOT PROC V2 CILIUM, "/sys/fs/cgroup", "/", "" },
		{ ROOT TMPFS UNIFY V1 CPU, "/sys/fs/cgroup/unified", "/", "" },
		{ ROOT TMPFS V1 CPU UNIFY, "/sys/fs/cgroup/unified", "/", "" },
		{ ROOT TMPFS CPU V1, "/sys/fs/cgroup/systemd", "/", "name=systemd" },
		{ "99 98 0:26 /machine.slice/one.scope /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup",
		  "/machine.slice/one.scope", "" },
		{ "99 98 0:26 /../../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup", "/../../..", "" },
		/* No cgroups, or malformed lines. */
		{ "", "", "", "" },
		{ ROOT PROC, "", "", "" },
		{ ROOT TMPFS CPU, "", "", "" },
		{ CILIUM, "", "", "" },
		{ "\n\n - \n", "", "", "" },
		{ "29 23 0:26 /\n", "", "", "" },
		{ "29 23 0:26 - cgroup2\n", "", "", "" },
		{ "29 23 0:26 - \n", "", "", "" },
		{ "29 23 0:26 / - cgroup2\n", "", "", "" },
		{ "29 23 0:26 / /sys/fs/cgroup rw\n", "", "", "" },
		{ "29 23 0:26 / /sys/fs/cgroup rw - \n", "", "", "" },
		{ "29 23 0:26 / /sys/fs/cgroup rw - cgroup\n", "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cgroups cgroups = find(cases[i].text);

		ck_assert_msg(streq(cgroups.mount, cases[i].mount), "%zu: %s", i, cgroups.mount);
		ck_assert_str_eq(cgroups.root, cases[i].root);
		ck_assert_str_eq(cgroups.controller, cases[i].controller);
		if (*cases[i].mount)
			continue;
		ck_assert_uint_eq(cgroup_id(&cgroups, "/"), 0);
		ck_assert(!cgroup_is_delegated(&cgroups, "/"));
	}
}

TEST(missing_or_truncated_mountinfo_is_an_error)
{
	struct cgroups cgroups;

	memset(&cgroups, 'x', sizeof(cgroups));
	ck_assert_int_eq(cgroups_find("/nowhere/mountinfo", &cgroups), -ENOENT);
	ck_assert_str_eq(cgroups.mount, "");
	ck_assert_str_eq(cgroups.controller, "");
	/* The mount of cgroup2 could be in the missing part. */
	ck_assert_int_eq(cgroups_find("/", &cgroups), -EISDIR);
}

/* The directory that has systemd's attribute, and its value. Faked, since not every file system has such attributes. */
static const char *marked = "";
static const char *mark = "1";

/* The owner of all directories. */
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

static void make(const char *path)
{
	char whole[128];

	snprintf(whole, sizeof(whole), "%s%s", directory, path);
	ck_assert_int_eq(mkdir(whole, 0755), 0);
}

static uint64_t inode(const char *path)
{
	struct stat status;
	char whole[128];

	snprintf(whole, sizeof(whole), "%s%s", directory, path);
	ck_assert_int_eq(stat(whole, &status), 0);
	return status.st_ino;
}

static struct cgroups cgroups_in(const char *root)
{
	struct cgroups cgroups = { 0 };

	string_copy(cgroups.mount, sizeof(cgroups.mount), directory);
	string_copy(cgroups.root, sizeof(cgroups.root), root);
	return cgroups;
}

TEST(id_is_the_inode_of_a_directory_in_the_mount)
{
	static const struct {
		const char *root, *path, *directory; /* NULL: none */
	} cases[] = {
		{ "/machine.slice/one", "/machine.slice/one", "/mount" },
		{ "/machine.slice/one", "/machine.slice/one/inside", "/mount/inside" },
		{ "/machine.slice/one", "/", NULL },
		{ "/machine.slice/one", "/machine.slice", NULL },
		{ "/machine.slice/one", "/machine.slice/other", NULL },
		{ "/machine.slice/one", "/machine.slice/one/../mountfringe", NULL },
		/* Its name begins like that of the root. */
		{ "/machine.slice/one", "/machine.slice/onefringe", NULL },
		{ "/", "/", "/mount" },
		{ "/", "/inside", "/mount/inside" },
		{ "/", "/missing", NULL },
		{ "/", "/..", NULL },
		{ "/", "/../", NULL },
		{ "/", "/../../etc", NULL },
		{ "/", "/inside/..", NULL },
	};
	DIRECTORY;
	char mount[sizeof(directory) + 8];

	make("/mount");
	make("/mount/inside");
	make("/mountfringe");
	snprintf(mount, sizeof(mount), "%s/mount", directory);
	owner = 1000;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cgroups cgroups = cgroups_in(cases[i].root);

		string_copy(cgroups.mount, sizeof(cgroups.mount), mount);
		ck_assert_msg(cgroup_id(&cgroups, cases[i].path) ==
				      (cases[i].directory ? inode(cases[i].directory) : 0),
			      "%s", cases[i].path);
		ck_assert(cgroup_is_delegated(&cgroups, cases[i].path) == (cases[i].directory != NULL));
	}
}

TEST(mark_1_or_another_owner_is_delegation)
{
	static const char *const values[] = { "1", "0", "", "yes", "11", "1234567890" };
	DIRECTORY;
	struct cgroups cgroups = cgroups_in("/");
	char path[128];

	make("/a");
	make("/b");
	snprintf(path, sizeof(path), "%s/a", directory);
	marked = path;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		mark = values[i];
		ck_assert(cgroup_is_delegated(&cgroups, "/a") == (i == 0));
		ck_assert(!cgroup_is_delegated(&cgroups, "/b"));
	}
	owner = 1000;
	ck_assert(cgroup_is_delegated(&cgroups, "/a"));
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
