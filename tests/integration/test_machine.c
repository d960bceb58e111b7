/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Machines on which not all is where it should be: tracefs is mounted elsewhere, nowhere, or for somebody else; a file has
 * another mode; a program is missing. Each works, or says in a sentence what to do. Mounts are changed in a namespace of the
 * test's own.
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

#define DEBUGFS "/sys/kernel/debug"

/*
 * Whether this machine has a real backend, and lets us play with its mounts; which one to ask for by name. A debugfs that some
 * tool has mounted has another tracefs inside, so it goes.
 */
static const char *need_machine(void)
{
	static char name[32];
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	if (!need_kernel(&fixture, "tracefs in unusual places"))
		return NULL;
	snprintf(name, sizeof(name), "--backend=%s",
		 fixture.backend == BACKEND_STATUS_PAGE ? "status-page" : "enable-address");
	fixture_stop(&fixture);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	while (umount2(DEBUGFS, MNT_DETACH) == 0)
		;
	return name;
}

static void expect_service(const struct fixture *fixture)
{
	struct answer answer;
	int socket, stream = -1;
	uint32_t record[] = { 0, 1 };

	ck_assert(!keeps_records_itself(fixture));
	socket = raw_hello(fixture->socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "elsewhere u32 a", &answer, &stream), 0);
	/* Nobody traces it: the kernel knows it, and says so. */
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

/* For that process something is mounted there. */
static bool is_mounted_for(pid_t pid, const char *directory)
{
	char path[64], line[1024], point[512];
	bool mounted = false;
	FILE *mounts;

	snprintf(path, sizeof(path), "/proc/%d/mounts", (int)pid);
	mounts = fopen(path, "re");
	ck_assert_ptr_nonnull(mounts);
	while (fgets(line, sizeof(line), mounts))
		mounted |= sscanf(line, "%*s %511s", point) == 1 && streq(point, directory);
	fclose(mounts);
	return mounted;
}

/* By itself, and when it is asked for its backend; `mounts`: the keeper has to mount tracefs where it belongs. */
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

struct wanted {
	const char *key;
	char text[512];
};

static void read_text(void *data, struct cursor row)
{
	struct wanted *wanted = data;

	row_get_string(row, wanted->key, wanted->text, sizeof(wanted->text));
}

static bool status_has(const struct fixture *fixture, const char *key, const char *part)
{
	struct wanted wanted = { .key = key };
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, read_text, &wanted), 0);
	close(control);
	return strstr(wanted.text, part);
}

/* By itself it does without; who asks for a backend by name is told why it can't be had. */
static void expect_sentence(const char *program, const char *backend, const char *part)
{
	char output[2048], socket[160], control[160];
	const char *const argv[] = { program, "--foreground", backend, socket, control, NULL };
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	snprintf(socket, sizeof(socket), "--socket=%s/other.sock", fixture.directory);
	snprintf(control, sizeof(control), "--control-socket=%s/other-control.sock", fixture.directory);
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), EXIT_FAILURE);
	ck_assert_msg(strstr(output, part), "%s", output);
	fixture_stop(&fixture);
}

TEST(tracefs_below_debugfs_will_do)
{
	const char *backend = need_machine();

	if (!backend)
		return;
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	if (mount("debugfs", DEBUGFS, "debugfs", 0, NULL) < 0) {
		ck_assert_int_eq(errno, ENODEV);
		printf("not possible here: this kernel has no debugfs\n");
		return;
	}
	expect_to_work_where_tracefs_is(backend, false);
}
END_TEST

TEST(tracefs_elsewhere_will_do)
{
	const char *backend = need_machine();
	char directory[64];

	if (!backend)
		return;
	make_temporary_directory(directory, sizeof(directory));
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	ck_assert_int_eq(mount("tracefs", directory, "tracefs", 0, NULL), 0);
	expect_to_work_where_tracefs_is(backend, false);
	ck_assert_int_eq(umount2(directory, MNT_DETACH), 0);
	rmdir(directory);
}
END_TEST

TEST(keeper_mounts_missing_tracefs)
{
	const char *backend = need_machine();

	if (!backend)
		return;
	ck_assert_int_eq(umount2(TRACEFS, MNT_DETACH), 0);
	expect_to_work_where_tracefs_is(backend, true);
	/* For itself, and for nobody else. */
	ck_assert_int_lt(access(TRACEFS "/user_events_data", F_OK), 0);
}
END_TEST

static void give_back_to_root(const char *path)
{
	if (mount(NULL, path, NULL, MS_REMOUNT, "uid=0,gid=0") < 0)
		perror(path);
}

TEST(tracefs_of_other_user_works_or_is_explained)
{
	const char *backend = need_machine();
	struct janitor janitor;
	struct stat status;

	if (!backend)
		return;
	janitor_start(&janitor, give_back_to_root, TRACEFS);
	ck_assert_int_eq(mount(NULL, TRACEFS, NULL, MS_REMOUNT, "uid=1000"), 0);
	/* Some kernels change the owner of what is there already, and some of the directory only. */
	ck_assert_int_eq(stat(TRACEFS, &status), 0);
	if (status.st_uid == 1000)
		expect_sentence(built("userevd"), backend, "tracefs belongs to user 1000");
	else
		expect_to_work(NULL);
	janitor_end(&janitor);
	expect_to_work(NULL);
}
END_TEST

TEST(unopenable_data_file_is_explained)
{
	const char *backend = need_machine();
	struct janitor janitor;

	if (!backend)
		return;
	change_mode(&janitor, TRACEFS "/user_events_data", 0);
	expect_sentence(built("userevd"), backend, "user_events_data can't be opened for writing");
	janitor_end(&janitor);
	expect_to_work(NULL);
}
END_TEST

TEST(status_file_mode_works_or_is_explained)
{
	const char *backend = need_machine();
	struct janitor janitor;

	if (!backend)
		return;
	change_mode(&janitor, TRACEFS "/user_events_status", 0);
	/* Only where clients look at it does anybody need it. */
	if (streq(backend, "--backend=status-page"))
		expect_sentence(built("userevd"), backend, "user_events_status can't be read");
	else
		expect_to_work(NULL);
	janitor_end(&janitor);
	expect_to_work(NULL);
}
END_TEST

TEST(missing_backend_is_refused_by_name)
{
	static const char *const backends[] = { "--backend=status-page", "--backend=enable-address" };
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		enum wire_backend backend = i == 0 ? BACKEND_STATUS_PAGE : BACKEND_ENABLE_ADDRESS;

		if (backend != fixture.backend)
			expect_sentence(built("userevd"), backends[i], "has no");
	}
	fixture_stop(&fixture);
}
END_TEST

static void copy_program(const char *name, const char *directory, char *ret, size_t size)
{
	char output[256];

	snprintf(ret, size, "%s/%s", directory, name);
	ck_assert_int_eq(
		run_command(NULL, output, sizeof(output), (const char *const[]){ "/bin/cp", built(name), ret, NULL }),
		0);
}

TEST(without_a_keeper_there_is_the_embedded_backend)
{
	char directory[64], program[128];
	const char *backend = need_machine();

	if (!backend)
		return;
	make_temporary_directory(directory, sizeof(directory));
	copy_program("userevd", directory, program, sizeof(program));
	expect_sentence(program, backend, "userevd-keeper is not installed");
	unlink(program);
	rmdir(directory);
}
END_TEST

TEST(missing_features_are_in_status)
{
	struct janitor janitor;
	struct fixture fixture;

	if (!need_machine())
		return;
	change_mode(&janitor, TRACEFS "/user_events_data", 0);
	fixture_start(&fixture, NULL);
	ck_assert(keeps_records_itself(&fixture));
	ck_assert(status_has(&fixture, "why", "user_events_data can't be opened for writing"));
	fixture_stop(&fixture);
	janitor_end(&janitor);
}
END_TEST

SUITE("machine", tracefs_below_debugfs_will_do, tracefs_elsewhere_will_do, keeper_mounts_missing_tracefs,
      tracefs_of_other_user_works_or_is_explained, unopenable_data_file_is_explained,
      status_file_mode_works_or_is_explained, missing_backend_is_refused_by_name,
      without_a_keeper_there_is_the_embedded_backend, missing_features_are_in_status)
