/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Unusual machines: tracefs is mounted elsewhere, not at all, or for another user; a file has another mode; a program is missing. The
 * daemon works, or prints a sentence that says what to do. Mounts are changed in a namespace of the test's own.
 */

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

#define DEBUGFS "/sys/kernel/debug"

/*
 * The option that asks for this machine's backend; NULL without user_events in the kernel. In a mount namespace of its own from now on,
 * without debugfs, which has another tracefs inside.
 */
static const char *need_machine(void)
{
	if (access(TRACEFS "/user_events_status", R_OK) < 0) {
		not_possible("tracefs in unusual places, without user_events in the kernel");
		return NULL;
	}
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	while (umount2(DEBUGFS, MNT_DETACH) == 0)
		;
	return access("/proc/sys/kernel/user_events_max", F_OK) == 0 ? "--backend=enable-address"
								     : "--backend=status-page";
}

static void expect_service(const struct fixture *fixture)
{
	struct answer answer;
	int socket, stream = -1;
	uint32_t record[] = { 0, 1 };

	ck_assert(!keeps_records_itself(fixture));
	socket = raw_hello(fixture->socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "elsewhere u32 a", &answer, &stream), 0);
	/* The kernel refuses the record, since the event is off. */
	ck_assert_int_lt(write(stream, record, sizeof(record)), 0);
	ck_assert_int_eq(errno, EBADF);
	close(stream);
	close(socket);
}

static void expect_to_work(const char *const *options)
{
	struct fixture fixture;

	fixture_start(&fixture, options);
	expect_service(&fixture);
	fixture_stop(&fixture);
}

/* A file system is mounted there in that process's namespace. */
static bool is_mounted_for(pid_t pid, const char *directory)
{
	char path[64], point[512];

	snprintf(path, sizeof(path), "/proc/%d/mounts", (int)pid);
	snprintf(point, sizeof(point), " %s ", directory);
	return file_has_line(path, point, "");
}

/* By default, and when it is asked for its backend; `mounts`: the keeper has to mount tracefs. */
static void expect_to_work_where_tracefs_is(const char *backend, bool mounts)
{
	const char *const options[][2] = { { NULL }, { backend, NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		struct fixture fixture;

		fixture_start(&fixture, options[i]);
		ck_assert_int_eq(is_mounted_for(fixture.keeper, TRACEFS), mounts);
		expect_service(&fixture);
		fixture_stop(&fixture);
	}
}

/* By default the daemon uses another backend; when asked for this one, it ends with a sentence that says why it can't. */
static void expect_sentence(const char *program, const char *backend, const char *words)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	fixture_expect_no_start(&fixture, program, backend, words);
	fixture_stop(&fixture);
}

#define MACHINE_TEST(name)                                                                                             \
	static void name##_with(const char *backend);                                                                  \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		const char *backend = need_machine();                                                                  \
                                                                                                                       \
		if (backend)                                                                                           \
			name##_with(backend);                                                                          \
	}                                                                                                              \
	static void name##_with(const char *backend)

static void read_why(void *data, struct cursor row)
{
	row_get_string(row, "why", data, 512);
}

MACHINE_TEST(tracefs_below_debugfs_will_do)
{
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	if (mount("debugfs", DEBUGFS, "debugfs", 0, NULL) < 0) {
		ck_assert_int_eq(errno, ENODEV);
		not_possible("tracefs below debugfs, which this kernel doesn't have");
		return;
	}
	expect_to_work_where_tracefs_is(backend, false);
}

MACHINE_TEST(tracefs_elsewhere_will_do)
{
	char directory[64];

	make_temporary_directory(directory, sizeof(directory));
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	ck_assert_int_eq(mount("tracefs", directory, "tracefs", 0, NULL), 0);
	expect_to_work_where_tracefs_is(backend, false);
	ck_assert_int_eq(umount2(directory, MNT_DETACH), 0);
	rmdir(directory);
}

MACHINE_TEST(keeper_mounts_missing_tracefs)
{
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	expect_to_work_where_tracefs_is(backend, true);
	/* In its own namespace alone. */
	ck_assert_int_lt(access(TRACEFS "/user_events_data", F_OK), 0);
}

static void give_back_to_root(const char *path)
{
	if (mount(NULL, path, NULL, MS_REMOUNT, "uid=0,gid=0") < 0)
		perror(path);
}

MACHINE_TEST(tracefs_of_other_user_works_or_is_explained)
{
	struct janitor janitor;
	struct stat status;

	janitor_start(&janitor, give_back_to_root, TRACEFS);
	ck_assert_int_eq(mount(NULL, TRACEFS, NULL, MS_REMOUNT, "uid=1000"), 0);
	/* Some kernels change the owner of existing files, and some that of the directory only. */
	ck_assert_int_eq(stat(TRACEFS, &status), 0);
	if (status.st_uid == 1000)
		expect_sentence(built("userevd"), backend, "mount tracefs with uid=0");
	else
		expect_to_work(NULL);
	janitor_end(&janitor);
	expect_to_work(NULL);
}

MACHINE_TEST(unopenable_data_file_is_explained)
{
	static const char words[] = "user_events_data can't be opened for writing";
	char why[512] = "";
	struct fixture fixture;
	struct janitor janitor;

	change_mode(&janitor, TRACEFS "/user_events_data", 0);
	expect_sentence(built("userevd"), backend, words);
	/* STATUS has the same words. */
	fixture_start(&fixture, NULL);
	ck_assert(keeps_records_itself(&fixture));
	ask_rows(&fixture, KIND_STATUS, read_why, why);
	ck_assert_msg(strstr(why, words), "%s", why);
	fixture_stop(&fixture);
	janitor_end(&janitor);
	expect_to_work(NULL);
}

MACHINE_TEST(status_file_mode_works_or_is_explained)
{
	struct janitor janitor;

	change_mode(&janitor, TRACEFS "/user_events_status", 0);
	/* Only a backend whose clients read it needs it. */
	if (streq(backend, "--backend=status-page"))
		expect_sentence(built("userevd"), backend, "user_events_status");
	else
		expect_to_work(NULL);
	janitor_end(&janitor);
	expect_to_work(NULL);
}

DAEMON_TEST(missing_backend_is_refused_by_name)
{
	if (fixture->backend != BACKEND_STATUS_PAGE)
		fixture_expect_no_start(fixture, built("userevd"), "--backend=status-page", "has no");
	if (fixture->backend != BACKEND_ENABLE_ADDRESS)
		fixture_expect_no_start(fixture, built("userevd"), "--backend=enable-address", "has no");
}

MACHINE_TEST(without_a_keeper_there_is_the_embedded_backend)
{
	char directory[64], program[128];

	make_temporary_directory(directory, sizeof(directory));
	snprintf(program, sizeof(program), "%s/userevd", directory);
	copy_built("userevd", program);
	expect_sentence(program, backend, "userevd-keeper is not installed");
	unlink(program);
	rmdir(directory);
}
