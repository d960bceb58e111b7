/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userevd-guard: what it pins, whatever it finds there, and what it says where it can't. As root, in a guest. */

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

#define DIRECTORY	 "/sys/fs/bpf/guard-test"
#define SOME_MOUNT	 "--mount=424242 --cgroup-id=4711"
#define OTHER_MOUNT	 "--mount=424243 --cgroup-id=4711"
#define expect_say(text) ck_assert_msg(strstr(loader_output, text) != NULL, "it says: %s", loader_output)

static void remove_all(void)
{
	if (access("/sys/fs/bpf/guard-test", F_OK) == 0)
		ck_assert_int_eq(loader("--remove"), 0);
}

static void rename_pinned(const char *from, const char *to)
{
	char old[256], new[256];

	snprintf(old, sizeof(old), DIRECTORY "/%s", from);
	snprintf(new, sizeof(new), DIRECTORY "/%s", to);
	ck_assert_msg(rename(old, new) == 0, "%s to %s: %s", old, new, strerror(errno));
}

/* A data file that is guarded, of nobody here. */
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

TEST(loaded_guard_is_not_loaded_again)
{
	char first[64], second[64];
	struct stat before, after;
	char path[256];

	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	ck_assert_str_eq(loader_output, "");
	find_pinned_program(first, sizeof(first));
	snprintf(path, sizeof(path), DIRECTORY "/%s", first);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(loader(OTHER_MOUNT), 0);
	find_pinned_program(second, sizeof(second));
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_str_eq(first, second);
	ck_assert_int_eq(before.st_ino, after.st_ino);
	ck_assert_int_eq(loader("--status"), 0);
	expect_say("{\"mount\":424242,\"cgroup_id\":4711}");
	expect_say("{\"mount\":424243,\"cgroup_id\":4711}");
}
END_TEST

static pid_t start_loader(int number)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(loader("--mount=%d --cgroup-id=4711", 1000 + number));
	return pid;
}

TEST(concurrent_loaders_load_once)
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
	find_pinned_program(program, sizeof(program));
	ck_assert(!is_pinned("new"));
	ck_assert_int_eq(loader("--status"), 0);
	for (int i = 0; i < LOADERS; i++) {
		snprintf(mount, sizeof(mount), "{\"mount\":%d,", 1000 + i);
		expect_say(mount);
	}
}
END_TEST

TEST(incomplete_pins_are_ignored)
{
	int fd = guarded_file();
	char program[64];

	find_pinned_program(program, sizeof(program));
	/* As if the loader had been killed before it was done. */
	rename_pinned(program, "new");
	ck_assert_int_eq(loader("--status"), 0);
	expect_say("{\"loaded\":false}");
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	find_pinned_program(program, sizeof(program));
	ck_assert(!is_pinned("new"));
	ck_assert(is_guarded(fd));
	close(fd);
}
END_TEST

TEST(damaged_guard_is_loaded_again)
{
	int fd = guarded_file();
	char program[64], path[256];

	find_pinned_program(program, sizeof(program));
	snprintf(path, sizeof(path), DIRECTORY "/%s/file_ioctl", program);
	ck_assert_int_eq(unlink(path), 0);
	expect_unguarded(fd);
	ck_assert_int_eq(loader("--status"), 0);
	expect_say("{\"loaded\":false}");
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	ck_assert(is_guarded(fd));
	close(fd);
}
END_TEST

TEST(new_map_is_used_by_programs)
{
	int old = guarded_file(), fd;

	ck_assert_int_eq(unlink(DIRECTORY "/mounts2"), 0);
	fd = guarded_file();
	ck_assert(is_guarded(fd));
	close(fd);
	close(old);
}
END_TEST

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

TEST(other_builds_programs_are_replaced)
{
	int fd = guarded_file();
	char program[64], now[64];
	pthread_t watcher;
	void *holes;

	find_pinned_program(program, sizeof(program));
	rename_pinned(program, "program2-0123456789abcdef");
	ck_assert_int_eq(loader("--status"), 0);
	expect_say("\"program\":\"program2-0123456789abcdef\",\"this_build\":false");
	ck_assert_int_eq(pthread_create(&watcher, NULL, watch, &fd), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	stop = true;
	pthread_join(watcher, &holes);
	ck_assert_int_eq((intptr_t)holes, 0);
	find_pinned_program(now, sizeof(now));
	ck_assert_str_eq(now, program);
	ck_assert(is_guarded(fd));
	close(fd);
}
END_TEST

TEST(programs_of_another_layout_are_left_alone)
{
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	ck_assert_int_eq(mkdir(DIRECTORY "/program1-0123456789abcdef", 0700), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 0);
	ck_assert_int_eq(rmdir(DIRECTORY "/program1-0123456789abcdef"), 0);
}
END_TEST

TEST(removed_guard_guards_nothing)
{
	int fd = guarded_file();

	ck_assert(is_guarded(fd));
	ck_assert_int_eq(loader("--remove --mount=99"), 1);
	expect_say("mount 99 is not guarded");
	ck_assert(is_guarded(fd));
	ck_assert_int_eq(loader("--remove"), 0);
	expect_unguarded(fd);
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	ck_assert_int_eq(loader("--remove"), 0);
	ck_assert_int_eq(loader("--remove --mount=99"), 1);
	expect_say("no guard is loaded");
	close(fd);
}
END_TEST

TEST(full_map_refuses_mount)
{
	const uint64_t cgroup = 4711;
	int map, fd = guarded_file(), r = 0;

	map = bpf_obj_get(DIRECTORY "/mounts2");
	ck_assert_int_ge(map, 0);
	for (uint64_t i = 1; r == 0; i++)
		r = bpf_map_update_elem(map, &i, &cgroup, BPF_ANY);
	close(map);
	ck_assert_int_eq(r, -E2BIG);
	ck_assert_int_eq(loader(OTHER_MOUNT), 1);
	expect_say("all 16384 entries for guarded mounts are taken");
	expect_say("--remove");
	ck_assert(is_guarded(fd));
	ck_assert_int_eq(loader("--remove --mount=1"), 0);
	ck_assert_int_eq(loader(OTHER_MOUNT), 0);
	ck_assert(is_guarded(fd));
	close(fd);
}
END_TEST

/* --- keepers --- */

TEST(a_keeper_that_is_not_there_is_refused_and_named)
{
	ck_assert_int_eq(loader("--mount=7 --cgroup=/sys/fs/cgroup/nowhere"), 1);
	expect_say("/sys/fs/cgroup/nowhere: No such file");
	ck_assert_int_eq(loader("--mount=7 --cgroup=/tmp"), 1);
	expect_say("/tmp is no cgroup v2");
	ck_assert_int_eq(loader("--mount=7 --cgroup=/sys/fs/cgroup"), 1);
	expect_say("the root cgroup isn't the keeper's alone");
	ck_assert_int_eq(loader("--remove --mount=7"), 1);
	expect_say("mount 7 is not guarded");
}
END_TEST

/* --- keepers that follow each other --- */

static bool is_its_keepers(struct stand_in *keeper, int fd)
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

TEST(keeper_inherits_mounts_of_gone_cgroup)
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
	ck_assert(!is_its_keepers(&heir, files[0]));

	load_cgroup(&heir, "guard-heir");
	ck_assert(is_its_keepers(&heir, files[0]));
	ck_assert(is_guarded(files[0]));
	ck_assert(!is_its_keepers(&heir, files[1]));
	ck_assert(is_its_keepers(&living, files[1]));
	ck_assert(!is_its_keepers(&living, files[0]));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		close(files[i]);
	end_with_cgroup(&living, "guard-living");
	end_with_cgroup(&heir, "guard-heir");
}
END_TEST

/* Who sees only a part of them can't say that one is gone. */
static int load_in_cgroup_namespace(void *data)
{
	const struct stand_in *heir = data;

	cgroup_enter("guard-heir");
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    umount2("/sys/fs/cgroup", MNT_DETACH) < 0 || mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0)
		return 2;
	return loader("--mount=%llu --cgroup-id=4711", (unsigned long long)heir->mount);
}

TEST(hidden_cgroups_prevent_inheriting)
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
END_TEST

/* --- what a machine lacks --- */

TEST(two_capabilities_are_enough)
{
	int fd;

	ck_assert_int_eq(loader_with(1ULL << CAP_BPF | 1ULL << CAP_PERFMON, SOME_MOUNT), 0);
	fd = guarded_file();
	ck_assert(is_guarded(fd));
	close(fd);
}
END_TEST

TEST(without_them_it_says_so)
{
	ck_assert_int_eq(loader_with(1ULL << CAP_BPF, SOME_MOUNT), 1);
	expect_say("no permission to load BPF programs (CAP_BPF and CAP_PERFMON)");
	ck_assert_int_eq(loader_as_nobody(SOME_MOUNT), 1);
	expect_say("no permission to load BPF programs (CAP_BPF and CAP_PERFMON)");
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	ck_assert_int_eq(loader_as_nobody("--status"), 1);
	expect_say("may not use " DIRECTORY);
}
END_TEST

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

TEST(missing_bpffs_is_mounted_or_explained)
{
	ck_assert_int_eq(run_in_child(without_bpffs, NULL), 0);
}
END_TEST

TEST(a_directory_elsewhere_is_refused)
{
	char path[64];

	make_temporary_directory(path, sizeof(path));
	loader_directory = path;
	ck_assert_int_eq(chmod(path, 0700), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 1);
	expect_say("isn't in a BPF file system");
	ck_assert_int_eq(rmdir(path), 0);
	loader_directory = DIRECTORY;
}
END_TEST

TEST(a_directory_that_is_open_to_others_is_refused)
{
	ck_assert_int_eq(mkdir(DIRECTORY, 0700), 0);
	ck_assert_int_eq(chmod(DIRECTORY, 0777), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 1);
	expect_say("is open to others than user 0");
	ck_assert_int_eq(chmod(DIRECTORY, 0700), 0);
	ck_assert_int_eq(chown(DIRECTORY, 1000, 1000), 0);
	ck_assert_int_eq(loader(SOME_MOUNT), 1);
	expect_say("may not use " DIRECTORY " (Permission denied): ");
	ck_assert_int_eq(rmdir(DIRECTORY), 0);
}
END_TEST

TEST(without_btf_it_says_so_and_pins_nothing)
{
	ck_assert_int_eq(loader(SOME_MOUNT), 1);
	expect_say(
		"userevd-guard: this kernel doesn't describe its types for BPF: there is no /sys/kernel/btf/vmlinux");
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
	ck_assert_int_eq(loader("--status"), 0);
	expect_say("{\"loaded\":false}");
	ck_assert_int_eq(loader("--remove"), 0);
}
END_TEST

/* --- options --- */

static const char *const wrong_options[][2] = {
	{ "", "which mount?" },
	{ "--mount=5", "whose mount is it?" },
	{ "--cgroup-id=7", "which mount?" },
	{ "--mount=0 --cgroup-id=7", "--mount wants the number" },
	{ "--mount=-1 --cgroup-id=7", "--mount wants the number" },
	{ "--mount=5x --cgroup-id=7", "--mount wants the number" },
	{ "--mount=18446744073709551616 --cgroup-id=7", "--mount wants the number" },
	{ "--mount=5 --cgroup-id=0", "--cgroup-id wants the number" },
	{ "--mount=5 --cgroup-id=self", "--cgroup-id wants the number" },
	{ "--mount=5 --cgroup-id=7 --cgroup=/sys/fs/cgroup/x", "give one of" },
	{ "--status --mount=5", "--status shows all mounts" },
	{ "--remove --cgroup-id=7", "is for guarding a mount" },
	{ "--pin=elsewhere --status", "--pin wants a path" },
	{ "--mount=5 --cgroup-id=7 more", "only options are allowed" },
	{ "--no-such-option", "Try 'userevd-guard --help'" },
};

TEST(wrong_options_are_exit_status_2)
{
	ck_assert_int_eq(loader("%s", wrong_options[_i][0]), 2);
	expect_say(wrong_options[_i][1]);
	expect_say("Try 'userevd-guard --help'");
	ck_assert_int_lt(access(DIRECTORY, F_OK), 0);
}
END_TEST

TEST(help_and_version_need_no_privilege)
{
	ck_assert_int_eq(loader_as_nobody("--help"), 0);
	expect_say("Usage: userevd-guard --mount=ID");
	ck_assert_int_eq(loader_as_nobody("--version"), 0);
	expect_say("userevd-guard " VERSION);
}
END_TEST

/* Those of the first sort find it loaded, and leave it so; the others begin with nothing. */
static void load_one(void)
{
	remove_all();
	ck_assert_msg(loader(SOME_MOUNT) == 0, "%s", loader_output);
}

static void add_tests(Suite *suite, const char *name, SFun load_once, const TTest *const *tests)
{
	TCase *cases = tcase_create(name);

	tcase_set_timeout(cases, 60);
	if (load_once)
		tcase_add_unchecked_fixture(cases, load_once, remove_all);
	else
		tcase_add_checked_fixture(cases, remove_all, remove_all);
	add_fd_check(cases);
	for (; *tests; tests++)
		tcase_add_test(cases, *tests);
	suite_add_tcase(suite, cases);
}

static Suite *make_suite(void)
{
	const TTest *const without_btf[] = { without_btf_it_says_so_and_pins_nothing, NULL };
	const TTest *const loaded[] = {
		a_keeper_that_is_not_there_is_refused_and_named,
		incomplete_pins_are_ignored,
		damaged_guard_is_loaded_again,
		new_map_is_used_by_programs,
		other_builds_programs_are_replaced,
		programs_of_another_layout_are_left_alone,
		full_map_refuses_mount,
		NULL,
	};
	const TTest *const fresh[] = {
		loaded_guard_is_not_loaded_again,
		concurrent_loaders_load_once,
		removed_guard_guards_nothing,
		keeper_inherits_mounts_of_gone_cgroup,
		hidden_cgroups_prevent_inheriting,
		two_capabilities_are_enough,
		without_them_it_says_so,
		missing_bpffs_is_mounted_or_explained,
		a_directory_elsewhere_is_refused,
		a_directory_that_is_open_to_others_is_refused,
		NULL,
	};
	Suite *suite = suite_create("guard loader");
	TCase *options = tcase_create("options");

	if (has_btf()) {
		add_tests(suite, "loaded", load_one, loaded);
		add_tests(suite, "fresh", NULL, fresh);
	} else {
		add_tests(suite, "without BTF", NULL, without_btf);
	}
	tcase_add_loop_test(options, wrong_options_are_exit_status_2, 0, ARRAY_SIZE(wrong_options));
	tcase_add_test(options, help_and_version_need_no_privilege);
	suite_add_tcase(suite, options);
	return suite;
}

int main(void)
{
	SRunner *runner;
	int failed;

	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	loader_directory = DIRECTORY;
	runner = srunner_create(make_suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
