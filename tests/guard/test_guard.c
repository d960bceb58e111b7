/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A holder of a data file that was opened through a guarded mount can write to it, and do nothing else. As root, in a guest. */

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/guard/bypass.h"
#include "tests/guard/loader.h"
#include "tests/guard/profile.h"
#include "tests/guard/stand_in.h"
#include "tests/suite.h"

/* In systemd/containers; and compiled. */
enum { PROFILES = 2 };
static const char *const profile_names[PROFILES] = {
	"seccomp-user-events.json",
	"seccomp-user-events-allowlist.json",
};
static struct sock_fprog profiles[PROFILES];

static struct stand_in keeper;
static int foreign_file = -1;

static void start_keeper(void)
{
	foreign_file = make_foreign_event();
	stand_in_start(&keeper, "guard-keeper");
}

static void load_for(const struct stand_in *stand_in, const char *cgroup)
{
	ck_assert_msg(loader("--mount=%llu --cgroup=/sys/fs/cgroup/%s", (unsigned long long)stand_in->mount, cgroup) ==
			      0,
		      "%s", loader_output);
}

static void start_guarded_keeper(void)
{
	start_keeper();
	load_for(&keeper, "guard-keeper");
}

static void end_keeper(void)
{
	stand_in_end(&keeper);
	close(foreign_file);
}

static void end_guarded_keeper(void)
{
	end_keeper();
	ck_assert_int_eq(loader("--remove"), 0);
}

static int plain_attempt(int fd)
{
	return attempt(fd, REGISTER_FOREIGN, kernel_manner(), FOREIGN);
}

static void switch_event(const char *event, const char *on)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/user_events/%s/enable", event);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(write(fd, on, 1), 1);
	close(fd);
}

/* --- with nothing loaded --- */

TEST(unguarded_attempt_gets_kernels_answer)
{
	const struct bypass *bypass = &bypasses[_i];
	off_t byte;
	int fd = stand_in_open(&keeper, &byte), error, expected;
	char event[64];

	error = try_bypass(bypass, fd, event, sizeof(event));
	expected = unguarded_answer(bypass->way, bypass->operation);
	ck_assert_msg(error == expected, "%s %s: %s, instead of %s", operation_names[bypass->operation],
		      bypass->way->name, strerror(error), strerror(expected));
	if (bypass->operation == REGISTER_NEW)
		ck_assert_int_eq(event_exists(event), error == 0);
	/* A lock belongs to an open file. */
	if (bypass->operation == UNLOCK)
		ck_assert_int_eq(is_locked(byte), bypass->way->other_file);
	close(fd);
}

TEST(unguarded_ioctl_fails_at_its_bad_address)
{
	int fd = stand_in_open(&keeper, NULL);

	ck_assert_int_lt(ioctl(fd, UAPI_IOCTL_REGISTER, NULL), 0);
	ck_assert_int_eq(errno, EFAULT);
	close(fd);
}

/* --- in a container with one of the seccomp profiles, unguarded --- */

TEST(container_profiles_refuse_every_ioctl)
{
	const struct bypass *bypass = &bypasses[_i % n_ioctl_bypasses];
	int profile = _i / n_ioctl_bypasses, fd = stand_in_open(&keeper, NULL), error;
	char event[64];

	profile_enter(&profiles[profile]);
	error = try_bypass(bypass, fd, event, sizeof(event));
	ck_assert_msg(error == EPERM || (error == bypass->way->never && error), "%s %s under %s: %s",
		      operation_names[bypass->operation], bypass->way->name, profile_names[profile], strerror(error));
	ck_assert(!event_exists(event));
	close(fd);
}

/* The profiles allow a holder to write records, and to remove the lock by which the stream is charged. */
TEST(profiles_allow_records_and_do_not_protect_locks)
{
	uint32_t record[2] = { 0, 42 };
	struct iovec part = { .iov_base = record, .iov_len = sizeof(record) };
	off_t byte;
	int fd = stand_in_open(&keeper, &byte);

	ck_assert_int_eq(stand_in_try(&keeper, STAND_IN_ITSELF, fd, REGISTER_FOREIGN, FOREIGN), 0);
	switch_event(FOREIGN, "1");
	profile_enter(&profiles[_i]);
	ck_assert_int_eq(writev(fd, &part, 1), sizeof(record));
	switch_event(FOREIGN, "0");
	ck_assert_int_eq(attempt(fd, UNLOCK, 0, ""), 0);
	ck_assert(!is_locked(byte));
	close(fd);
}

/* --- ioctls on other files --- */

static double nanoseconds_each(int fd)
{
	enum { CALLS = 20000, ROUNDS = 5 };
	double best = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		struct timespec start, end;
		double spent;

		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int i = 0; i < CALLS; i++)
			(void)syscall(SYS_ioctl, fd, UAPI_IOCTL_REGISTER, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		spent = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
		best = MIN(best, spent / CALLS);
	}
	return best;
}

TEST(ioctls_on_other_files_work_under_the_guard)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int tracing = open("/sys/kernel/tracing/user_events_data", O_WRONLY | O_CLOEXEC);
	double null_before = nanoseconds_each(null), tracing_before = nanoseconds_each(tracing);
	double null_with, tracing_with;

	ck_assert_int_eq(loader("--mount=%llu --cgroup-id=4711", (unsigned long long)keeper.mount), 0);
	null_with = nanoseconds_each(null);
	tracing_with = nanoseconds_each(tracing);
	ck_assert_int_eq(loader("--remove"), 0);
	printf("An ioctl that fails: %.0f ns on /dev/null, %.0f with the guard (%.2f times as much); %.0f on an unguarded data file, "
	       "%.0f with the guard (%.2f times as much)\n",
	       null_before, null_with, null_with / null_before, tracing_before, tracing_with,
	       tracing_with / tracing_before);
	fflush(stdout);
	close(null);
	close(tracing);
}

/* --- with the guard --- */

TEST(guarded_file_refuses_every_attempt)
{
	const struct bypass *bypass = &bypasses[_i];
	off_t byte;
	int fd = stand_in_open(&keeper, &byte), error;
	char event[64];

	error = try_bypass(bypass, fd, event, sizeof(event));
	ck_assert_msg(error == (bypass->way->never ? bypass->way->never : EPERM), "%s %s: %s",
		      operation_names[bypass->operation], bypass->way->name, strerror(error));
	ck_assert(!event_exists(event));
	ck_assert(is_locked(byte));
	close(fd);
}

static void expect_to_be_allowed(enum stand_in_process process)
{
	struct way way = { .narrow = false };
	char event[64];

	for (int operation = 0; operation < OPERATIONS; operation++) {
		int fd = stand_in_open(&keeper, NULL), error;

		snprintf(event, sizeof(event), "guard_own_%d_%d", (int)getpid(), operation);
		error = stand_in_try(&keeper, process, fd, (enum operation)operation,
				     operation == REGISTER_NEW ? event : FOREIGN);
		ck_assert_msg(error == unguarded_answer(&way, (enum operation)operation), "%s: %s",
			      operation_names[operation], strerror(error));
		close(fd);
	}
}

TEST(keeper_and_its_child_may_register)
{
	expect_to_be_allowed(STAND_IN_ITSELF);
	expect_to_be_allowed(STAND_IN_CHILD);
}

static void start_other(struct stand_in *ret)
{
	stand_in_start(ret, "guard-other");
	load_for(ret, "guard-other");
}

static void end_other(struct stand_in *other)
{
	stand_in_end(other);
	ck_assert_int_eq(loader("--remove --mount=%llu", (unsigned long long)other->mount), 0);
}

TEST(keeper_may_register_on_its_own_files_only)
{
	struct stand_in other;
	int own = stand_in_open(&keeper, NULL), others;

	start_other(&other);
	others = stand_in_open(&other, NULL);
	ck_assert_int_eq(stand_in_try(&keeper, STAND_IN_ITSELF, own, REGISTER_FOREIGN, FOREIGN), 0);
	ck_assert_int_eq(stand_in_try(&other, STAND_IN_ITSELF, others, REGISTER_FOREIGN, FOREIGN), 0);
	ck_assert_int_eq(stand_in_try(&keeper, STAND_IN_ITSELF, others, REGISTER_FOREIGN, FOREIGN), EPERM);
	ck_assert_int_eq(stand_in_try(&other, STAND_IN_ITSELF, own, REGISTER_FOREIGN, FOREIGN), EPERM);
	ck_assert_int_eq(stand_in_try(&other, STAND_IN_CHILD, own, UNLOCK, ""), EPERM);
	close(own);
	close(others);
	end_other(&other);
}

static int try_in_keepers_cgroup(void *data)
{
	cgroup_enter("guard-keeper");
	return attempt(*(int *)data, REGISTER_FOREIGN, kernel_manner(), FOREIGN);
}

TEST(process_in_the_keepers_cgroup_may_register)
{
	int fd = stand_in_open(&keeper, NULL);

	ck_assert_int_eq(run_in_child(try_in_keepers_cgroup, &fd), 0);
	ck_assert_int_eq(plain_attempt(fd), EPERM);
	close(fd);
}

TEST(files_of_an_ended_keeper_stay_guarded)
{
	struct stand_in other;
	int fd;

	start_other(&other);
	fd = stand_in_open(&other, NULL);
	stand_in_end(&other);
	ck_assert_int_eq(plain_attempt(fd), EPERM);
	ck_assert_int_eq(loader("--remove --mount=%llu", (unsigned long long)other.mount), 0);
	ck_assert_int_eq(plain_attempt(fd), 0);
	close(fd);
}

/* --- other mounts --- */

static int try_all_as_nobody(void *data)
{
	int fd = *(int *)data;
	char event[64];

	if (setresuid(1000, 1000, 1000) < 0)
		return 255;
	snprintf(event, sizeof(event), "guard_free_%d", (int)getpid());
	for (int operation = 0; operation <= UNLOCK; operation++) {
		struct way way = { .nobody = true };
		int error = attempt(fd, (enum operation)operation, kernel_manner(),
				    operation == REGISTER_NEW ? event : FOREIGN);

		if (error != unguarded_answer(&way, (enum operation)operation))
			return 100 + operation;
	}
	return 0;
}

TEST(files_of_other_mounts_are_not_guarded)
{
	uint64_t mount_id;
	int directory = clone_tracefs(&mount_id), cloned = open_data_file(directory);
	int fd = open("/sys/kernel/tracing/user_events_data", O_WRONLY | O_CLOEXEC);

	ck_assert_uint_ne(mount_id, keeper.mount);
	ck_assert_int_eq(run_in_child(try_all_as_nobody, &cloned), 0);
	ck_assert_int_eq(run_in_child(try_all_as_nobody, &fd), 0);
	ck_assert_int_eq(attempt(fd, CHMOD, kernel_manner(), FOREIGN), 0);
	close(fd);
	close(cloned);
	close(directory);
}

TEST(mount_of_another_file_system_is_not_guarded)
{
	struct statx status;
	int fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	if (statx(fd, "", AT_EMPTY_PATH, 0x4000, &status) < 0 || !(status.stx_mask & 0x4000))
		ck_assert_int_eq(statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status), 0);
	ck_assert_int_eq(loader("--mount=%llu --cgroup-id=4711", (unsigned long long)status.stx_mnt_id), 0);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_int_eq(fchmod(fd, 0644), 0);
	ck_assert_int_eq(loader("--remove --mount=%llu", (unsigned long long)status.stx_mnt_id), 0);
	close(fd);
}

/* --- other operations of a holder --- */

static int try_close_on_exec(void *data)
{
	int fd = *(int *)data;

	if (ioctl(fd, FIONCLEX) < 0 || fcntl(fd, F_GETFD) != 0)
		return errno;
	if (syscall(SYS_ioctl, fd, FIOCLEX | 0x5a5a5a5a00000000, NULL) < 0 || fcntl(fd, F_GETFD) != FD_CLOEXEC)
		return errno;
	return 0;
}

TEST(close_on_exec_may_be_set_on_a_guarded_file)
{
	int fd = stand_in_open(&keeper, NULL), on = 1;

	ck_assert_int_eq(run_in_child(try_close_on_exec, &fd), 0);
	/* Others are refused before their argument. */
	ck_assert(ioctl(fd, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM);
	ck_assert(ioctl(fd, FIONBIO, &on) < 0 && errno == EPERM);
	ck_assert(ioctl(fd, FIONREAD, &on) < 0 && errno == EPERM);
	close(fd);
}

TEST(lock_on_a_guarded_file_is_refused)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1 };
	int fd = stand_in_open(&keeper, NULL);

	ck_assert(fcntl(fd, F_SETLK, &lock) < 0 && errno == EPERM);
	ck_assert(fcntl(fd, F_OFD_SETLK, &lock) < 0 && errno == EPERM);
	ck_assert(fcntl(fd, F_OFD_SETLKW, &lock) < 0 && errno == EPERM);
	ck_assert(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EPERM);
	ck_assert(fcntl(fd, F_SETLEASE, F_WRLCK) < 0 && errno == EPERM);
	close(fd);
}

TEST(guarded_mount_cannot_be_mounted_elsewhere)
{
	int fd = stand_in_open(&keeper, NULL), tree;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE);
	ck_assert_msg(tree < 0, "the mount can be cloned");
	ck_assert(mount(path, "/dev/null", NULL, MS_BIND, NULL) < 0);
	close(fd);
}

static int write_as_nobody(void *data)
{
	uint32_t record[2] = { 0, 42 };
	struct iovec part = { .iov_base = record, .iov_len = sizeof(record) };

	if (setresuid(1000, 1000, 1000) < 0)
		return 255;
	return writev(*(int *)data, &part, 1) < 0 ? errno : 0;
}

/* Everything that a holder may do with a file that other programs have, too. */
static int disturb_as_nobody(void *data)
{
	uint32_t record[2] = { 0, 42 };
	int fd = *(int *)data;

	if (setresuid(1000, 1000, 1000) < 0)
		return 255;
	if (fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) < 0 || ftruncate(fd, 100) < 0)
		return errno;
	(void)!pwrite(fd, record, sizeof(record), 5);
	(void)lseek(fd, 5, SEEK_SET);
	return 0;
}

TEST(records_are_written_despite_another_holder)
{
	int fd = stand_in_open(&keeper, NULL);

	ck_assert_int_eq(stand_in_try(&keeper, STAND_IN_ITSELF, fd, REGISTER_FOREIGN, FOREIGN), 0);
	ck_assert_int_eq(run_in_child(write_as_nobody, &fd), EBADF);
	switch_event(FOREIGN, "1");
	ck_assert_int_eq(run_in_child(write_as_nobody, &fd), 0);
	ck_assert_int_eq(run_in_child(disturb_as_nobody, &fd), 0);
	ck_assert_int_eq(run_in_child(write_as_nobody, &fd), 0);
	switch_event(FOREIGN, "0");
	close(fd);
}

/* Test cases with a set-up, without a test. */
static TCase *add_cases(Suite *suite, const char *name, SFun setup, SFun teardown)
{
	TCase *cases = tcase_create(name);

	tcase_set_timeout(cases, 60);
	tcase_add_unchecked_fixture(cases, setup, teardown);
	suite_check_fds(cases);
	suite_add_tcase(suite, cases);
	return cases;
}

static void add_unguarded(Suite *suite)
{
	TCase *cases = add_cases(suite, "without", start_keeper, end_keeper);

	tcase_add_loop_test(cases, unguarded_attempt_gets_kernels_answer, 0, n_bypasses);
	tcase_add_test(cases, unguarded_ioctl_fails_at_its_bad_address);
}

static void add_profiles(Suite *suite)
{
	TCase *cases = add_cases(suite, "profiles", start_keeper, end_keeper);

	for (int i = 0; i < PROFILES; i++)
		if (!profile_compile(profile_names[i], &profiles[i]))
			return;
	tcase_add_loop_test(cases, container_profiles_refuse_every_ioctl, 0, PROFILES * n_ioctl_bypasses);
	tcase_add_loop_test(cases, profiles_allow_records_and_do_not_protect_locks, 0, PROFILES);
}

static void add_guarded(Suite *suite)
{
	const TTest *const tests[] = {
		keeper_and_its_child_may_register,	    keeper_may_register_on_its_own_files_only,
		process_in_the_keepers_cgroup_may_register, files_of_an_ended_keeper_stay_guarded,
		files_of_other_mounts_are_not_guarded,	    mount_of_another_file_system_is_not_guarded,
		close_on_exec_may_be_set_on_a_guarded_file, lock_on_a_guarded_file_is_refused,
		guarded_mount_cannot_be_mounted_elsewhere,  records_are_written_despite_another_holder,
	};
	TCase *cost = add_cases(suite, "cost", start_keeper, end_keeper);
	TCase *cases = add_cases(suite, "with", start_guarded_keeper, end_guarded_keeper);

	tcase_add_test(cost, ioctls_on_other_files_work_under_the_guard);
	tcase_add_loop_test(cases, guarded_file_refuses_every_attempt, 0, n_bypasses);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		tcase_add_test(cases, tests[i]);
}

static int run_all(void)
{
	Suite *suite = suite_create("guard");

	add_unguarded(suite);
	add_profiles(suite);
	if (has_btf())
		add_guarded(suite);
	printf("%d attempts to misuse a data file %s, and the %d ioctls of them under %d seccomp profiles\n",
	       n_bypasses, has_btf() ? "with the guard and without" : "without a guard", n_ioctl_bypasses, PROFILES);
	fflush(stdout);
	return suite_run(suite);
}

int main(void)
{
	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	loader_directory = "/sys/fs/bpf/guard-test";
	bypasses_list();
	return run_all();
}
