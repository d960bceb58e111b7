/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userevd-guard: its pins, its keepers, and its sentences on a machine that lacks something. As root, in a guest. */

#include <bpf/bpf.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "kernel/guard/guard.h"
#include "tests/guard/attempt.h"
#include "tests/guard/loader.h"
#include "tests/guard/stand_in.h"
#include "tests/suite.h"

#ifndef CAP_BPF
#define CAP_PERFMON 38
#define CAP_BPF	    39
#endif

#define DIRECTORY   "/sys/fs/bpf/guard-test"
#define SOME_MOUNT  "--mount=424242 --cgroup-id=4711"
#define OTHER_MOUNT "--mount=424243 --cgroup-id=4711"
/* The loader ends with that status, and prints this text. */
#define expect_loader(status, text, ...)                                                                               \
	do {                                                                                                           \
		ck_assert_msg(loader(__VA_ARGS__) == (status), "%s", loader_output);                                   \
		expect_output(text);                                                                                   \
	} while (0)
#define expect_output(text) ck_assert_msg(strstr(loader_output, text) != NULL, "%s", loader_output)

static void remove_all(void)
{
	if (is_pinned(""))
		ck_assert_int_eq(loader("--remove"), 0);
}

/* It begins without a guard, and leaves none. */
#define FRESH_TEST(name)                                                                                               \
	static void name##_without(void);                                                                              \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		if (!has_btf())                                                                                        \
			return;                                                                                        \
		remove_all();                                                                                          \
		name##_without();                                                                                      \
		remove_all();                                                                                          \
	}                                                                                                              \
	static void name##_without(void)

/* It finds a guard, and leaves one. */
#define LOADED_TEST(name)                                                                                              \
	static void name##_with(void);                                                                                 \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		if (!has_btf())                                                                                        \
			return;                                                                                        \
		ck_assert_msg(loader(SOME_MOUNT) == 0, "%s", loader_output);                                           \
		name##_with();                                                                                         \
	}                                                                                                              \
	static void name##_with(void)

static void rename_pinned(const char *from, const char *to)
{
	char old[256], new[256];

	snprintf(old, sizeof(old), DIRECTORY "/%s", from);
	snprintf(new, sizeof(new), DIRECTORY "/%s", to);
	ck_assert_msg(rename(old, new) == 0, "%s to %s: %s", old, new, strerror(errno));
}

/* A guarded data file; no process here is its keeper. */
static int guarded_file(void)
{
	uint64_t mount_id;
	int directory = clone_tracefs(&mount_id), fd = open_data_file(directory);

	close(directory);
	ck_assert_msg(loader("--mount=%llu --cgroup-id=4711", (unsigned long long)mount_id) == 0, "%s", loader_output);
	return fd;
}

static bool is_guarded(int fd)
{
	return ioctl(fd, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM;
}

/* The kernel detaches programs a moment after the last link to them has gone. */
static void expect_unguarded(int fd)
{
	for (unsigned i = 0; i < 1000 && is_guarded(fd); i++)
		usleep(10000);
	ck_assert(!is_guarded(fd));
}

/* --- pins --- */

FRESH_TEST(loaded_guard_is_not_loaded_again)
{
	char first[64], second[64];
	struct stat before, after;
	char path[256];

	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	ck_assert_str_eq(loader_output, "");
	find_pinned("program2-", first, sizeof(first));
	snprintf(path, sizeof(path), DIRECTORY "/%s", first);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(loader(OTHER_MOUNT), 0);
	find_pinned("program2-", second, sizeof(second));
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_str_eq(first, second);
	ck_assert_int_eq(before.st_ino, after.st_ino);
	expect_loader(0, "{\"mount\":424242,\"cgroup_id\":4711}", "--status");
	expect_output("{\"mount\":424243,\"cgroup_id\":4711}");
}

static pid_t start_loader(int number)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(loader("--mount=%d --cgroup-id=4711", 1000 + number));
	return pid;
}

FRESH_TEST(concurrent_loaders_load_the_guard_once)
{
	enum { LOADERS = 4 };
	pid_t pids[LOADERS];
	char program[64], mount[32];
	int status;

	for (int i = 0; i < LOADERS; i++)
		pids[i] = start_loader(i);
	for (int i = 0; i < LOADERS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	find_pinned("program2-", program, sizeof(program));
	ck_assert(!is_pinned("new"));
	ck_assert_int_eq(loader("--status"), 0);
	for (int i = 0; i < LOADERS; i++) {
		snprintf(mount, sizeof(mount), "{\"mount\":%d,", 1000 + i);
		expect_output(mount);
	}
}

/* As if a loader had been killed before it was done. */
LOADED_TEST(incomplete_guard_is_loaded_again)
{
	for (unsigned way = 0; way < 2; way++) {
		int fd = guarded_file();
		char program[64], path[256];

		find_pinned("program2-", program, sizeof(program));
		if (way == 0) {
			rename_pinned(program, "new");
		} else {
			snprintf(path, sizeof(path), DIRECTORY "/%s/file_ioctl", program);
			ck_assert_int_eq(unlink(path), 0);
			expect_unguarded(fd);
		}
		expect_loader(0, "{\"loaded\":false}", "--status");
		ck_assert_int_eq(loader(SOME_MOUNT), 0);
		find_pinned("program2-", program, sizeof(program));
		ck_assert(!is_pinned("new"));
		ck_assert(is_guarded(fd));
		close(fd);
	}
}

LOADED_TEST(recreated_map_is_used_by_the_programs)
{
	int old = guarded_file(), fd;

	ck_assert_int_eq(unlink(DIRECTORY "/mounts2"), 0);
	/* Programs of another layout stay. */
	ck_assert_int_eq(mkdir(DIRECTORY "/program1-0123456789abcdef", 0700), 0);
	fd = guarded_file();
	ck_assert(is_guarded(fd));
	ck_assert_int_eq(rmdir(DIRECTORY "/program1-0123456789abcdef"), 0);
	close(fd);
	close(old);
}

static atomic_bool stop;

/* How often the file was not guarded. */
static void *watch(void *data)
{
	int fd = *(int *)data;
	intptr_t holes = 0;

	while (!stop)
		holes += !is_guarded(fd);
	return (void *)holes;
}

LOADED_TEST(program_of_another_build_is_replaced_without_a_gap)
{
	int fd = guarded_file();
	char program[64], now[64];
	pthread_t watcher;
	void *holes;

	find_pinned("program2-", program, sizeof(program));
	rename_pinned(program, "program2-0123456789abcdef");
	expect_loader(0, "\"program\":\"program2-0123456789abcdef\",\"this_build\":false", "--status");
	ck_assert_int_eq(pthread_create(&watcher, NULL, watch, &fd), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	stop = true;
	pthread_join(watcher, &holes);
	ck_assert_int_eq((intptr_t)holes, 0);
	find_pinned("program2-", now, sizeof(now));
	ck_assert_str_eq(now, program);
	ck_assert(is_guarded(fd));
	close(fd);
}

FRESH_TEST(removed_guard_guards_no_more)
{
	int fd = guarded_file();

	ck_assert(is_guarded(fd));
	expect_loader(1, "mount 99 is not guarded", "--remove --mount=99");
	ck_assert(is_guarded(fd));
	ck_assert_int_eq(loader("--remove"), 0);
	expect_unguarded(fd);
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	ck_assert_int_eq(loader("--remove"), 0);
	expect_loader(1, "no guard is loaded", "--remove --mount=99");
	close(fd);
}

FRESH_TEST(full_map_is_reported_and_keeps_its_entries)
{
	const uint64_t cgroup = 4711;
	int map, fd = guarded_file(), r = 0;

	map = bpf_obj_get(DIRECTORY "/mounts2");
	ck_assert_int_ge(map, 0);
	for (uint64_t i = 1; r == 0; i++)
		r = bpf_map_update_elem(map, &i, &cgroup, BPF_ANY);
	close(map);
	ck_assert_int_eq(r, -E2BIG);
	expect_loader(1, "all 16384 entries for guarded mounts are taken", OTHER_MOUNT);
	expect_output("--remove");
	ck_assert(is_guarded(fd));
	ck_assert_int_eq(loader("--remove --mount=1"), 0);
	ck_assert_int_eq(loader(OTHER_MOUNT), 0);
	ck_assert(is_guarded(fd));
	close(fd);
}

/* --- keepers --- */

LOADED_TEST(missing_keeper_is_refused_and_named)
{
	expect_loader(1, "/sys/fs/cgroup/nowhere: No such file", "--mount=7 --cgroup=/sys/fs/cgroup/nowhere");
	expect_loader(1, "/tmp is no cgroup v2", "--mount=7 --cgroup=/tmp");
	expect_loader(1, "the root cgroup has other processes than the keeper", "--mount=7 --cgroup=/sys/fs/cgroup");
	expect_loader(1, "mount 7 is not guarded", "--remove --mount=7");
}

/* --- keepers that follow each other --- */

static bool may_register(struct stand_in *keeper, int fd)
{
	return stand_in_try(keeper, STAND_IN_ITSELF, fd, REGISTER_NEW, "guard_heir") == 0;
}

static void load_cgroup(const struct stand_in *keeper, const char *name)
{
	ck_assert_msg(loader("--mount=%llu --cgroup=/sys/fs/cgroup/%s", (unsigned long long)keeper->mount, name) == 0,
		      "%s", loader_output);
}

/* As systemd does with the cgroup of a unit that has ended. */
static void end_with_cgroup(struct stand_in *keeper, const char *name)
{
	char path[128];

	stand_in_end(keeper);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", name);
	for (unsigned i = 0; i < 1000 && rmdir(path) < 0; i++)
		usleep(10000);
	ck_assert_int_lt(access(path, F_OK), 0);
}

FRESH_TEST(files_of_a_removed_cgroup_go_to_the_next_keeper)
{
	struct stand_in gone, living, heir;
	int files[2];

	stand_in_start(&gone, "guard-gone");
	stand_in_start(&living, "guard-living");
	stand_in_start(&heir, "guard-heir");
	load_cgroup(&gone, "guard-gone");
	load_cgroup(&living, "guard-living");
	files[0] = stand_in_open(&gone, NULL);
	files[1] = stand_in_open(&living, NULL);
	end_with_cgroup(&gone, "guard-gone");
	ck_assert(!may_register(&heir, files[0]));

	load_cgroup(&heir, "guard-heir");
	ck_assert(may_register(&heir, files[0]));
	ck_assert(is_guarded(files[0]));
	ck_assert(!may_register(&heir, files[1]));
	ck_assert(may_register(&living, files[1]));
	ck_assert(!may_register(&living, files[0]));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		close(files[i]);
	end_with_cgroup(&living, "guard-living");
	end_with_cgroup(&heir, "guard-heir");
}

/* A loader that sees only a part of all cgroups can't know that one is gone. */
static int load_in_cgroup_namespace(void *data)
{
	const struct stand_in *heir = data;

	cgroup_enter("guard-heir");
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    umount2("/sys/fs/cgroup", MNT_DETACH) < 0 || mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0)
		return 2;
	return loader("--mount=%llu --cgroup-id=4711", (unsigned long long)heir->mount);
}

FRESH_TEST(loader_in_a_cgroup_namespace_inherits_nothing)
{
	struct stand_in gone, heir;
	const char *first;
	int fd;

	stand_in_start(&gone, "guard-gone");
	stand_in_start(&heir, "guard-heir");
	load_cgroup(&gone, "guard-gone");
	fd = stand_in_open(&gone, NULL);
	end_with_cgroup(&gone, "guard-gone");
	ck_assert_int_eq(run_in_child(load_in_cgroup_namespace, &heir), 0);
	ck_assert_int_eq(loader("--status"), 0);
	first = strstr(loader_output, "\"cgroup_id\":4711");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_null(strstr(first + 1, "\"cgroup_id\":4711"));
	close(fd);
	end_with_cgroup(&heir, "guard-heir");
}

/* --- what a machine lacks --- */

FRESH_TEST(two_capabilities_are_needed)
{
	int fd;

	ck_assert_int_eq(loader_with(1ULL << CAP_BPF, SOME_MOUNT), 1);
	expect_output("no permission to load BPF programs (CAP_BPF and CAP_PERFMON)");
	ck_assert_int_eq(loader_as_nobody(SOME_MOUNT), 1);
	expect_output("no permission to load BPF programs (CAP_BPF and CAP_PERFMON)");
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	ck_assert_int_eq(loader_with(1ULL << CAP_BPF | 1ULL << CAP_PERFMON, SOME_MOUNT), 0);
	fd = guarded_file();
	ck_assert(is_guarded(fd));
	close(fd);
	ck_assert_int_eq(loader_as_nobody("--status"), 1);
	expect_output("may not use " DIRECTORY);
}

static int without_bpffs(_unused_ void *data)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    umount("/sys/fs/bpf") < 0)
		return 100;
	if (loader_with(1ULL << CAP_BPF | 1ULL << CAP_PERFMON, SOME_MOUNT) != 1 ||
	    !strstr(loader_output, "mount -t bpf bpf /sys/fs/bpf"))
		return 101;
	if (loader(SOME_MOUNT) != 0)
		return 102;
	return access(DIRECTORY "/mounts2", F_OK) < 0 ? 103 : 0;
}

FRESH_TEST(missing_bpffs_is_mounted_or_explained)
{
	ck_assert_int_eq(run_in_child(without_bpffs, NULL), 0);
}

FRESH_TEST(directory_outside_bpffs_is_refused)
{
	char path[64];

	make_temporary_directory(path, sizeof(path));
	loader_directory = path;
	ck_assert_int_eq(chmod(path, 0700), 0);
	expect_loader(1, "isn't in a BPF file system", SOME_MOUNT);
	ck_assert_int_eq(rmdir(path), 0);
	loader_directory = DIRECTORY;
}

FRESH_TEST(directory_open_to_others_is_refused)
{
	ck_assert_int_eq(mkdir(DIRECTORY, 0700), 0);
	ck_assert_int_eq(chmod(DIRECTORY, 0777), 0);
	expect_loader(1, "is open to others than user 0", SOME_MOUNT);
	ck_assert_int_eq(chmod(DIRECTORY, 0700), 0);
	ck_assert_int_eq(chown(DIRECTORY, 1000, 1000), 0);
	expect_loader(1, "may not use " DIRECTORY " (Permission denied): ", SOME_MOUNT);
	ck_assert_int_eq(rmdir(DIRECTORY), 0);
}

TEST(missing_btf_is_named_and_nothing_is_pinned)
{
	if (has_btf())
		return;
	expect_loader(
		1, "userevd-guard: this kernel doesn't describe its types for BPF: there is no /sys/kernel/btf/vmlinux",
		SOME_MOUNT);
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	expect_loader(0, "{\"loaded\":false}", "--status");
	ck_assert_int_eq(loader("--remove"), 0);
}

/* --- options --- */

TEST(wrong_option_exits_with_two_and_a_sentence)
{
	static const char *const wrong[][2] = {
		{ "", "which mount?" },
		{ "--mount=5", "whose mount is it?" },
		{ "--cgroup-id=7", "which mount?" },
		{ "--mount=0 --cgroup-id=7", "give a number from 1" },
		{ "--mount=-1 --cgroup-id=7", "give a number from 1" },
		{ "--mount=5x --cgroup-id=7", "give a number from 1" },
		{ "--mount=18446744073709551616 --cgroup-id=7", "give a number from 1" },
		{ "--mount=5 --cgroup-id=0", "give a number from 1" },
		{ "--mount=5 --cgroup-id=self", "give a number from 1" },
		{ "--mount=5 --cgroup-id=7 --cgroup=/sys/fs/cgroup/x", "give one of" },
		{ "--status --mount=5", "--status shows all mounts" },
		{ "--remove --cgroup-id=7", "is for guarding a mount" },
		{ "--pin=elsewhere --status", "--pin wants a path" },
		{ "--mount=5 --cgroup-id=7 more", "unexpected argument 'more'" },
		{ "--remove --status", "give one of" },
		{ "--no-such-option", "See 'userevd-guard --help'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		ck_assert_msg(loader("%s", wrong[i][0]) == 2, "%s: %s", wrong[i][0], loader_output);
		ck_assert_msg(strstr(loader_output, wrong[i][1]), "%s: %s", wrong[i][0], loader_output);
		expect_output("See 'userevd-guard --help'");
		ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	}
}

TEST(help_and_version_are_printed_to_any_user)
{
	ck_assert_int_eq(loader_as_nobody("--help"), 0);
	expect_output("Usage: userevd-guard --mount=ID");
	ck_assert_int_eq(loader_as_nobody("--version"), 0);
	expect_output("userevd-guard " VERSION);
}

int main(void)
{
	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	loader_directory = DIRECTORY;
	return run_all_tests();
}
