/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>

enum { TESTS_MAX = 256 };

static const TTest *registered[TESTS_MAX];
static size_t n_registered;
static int fds_before;

void suite_add(const TTest *test)
{
	if (n_registered == TESTS_MAX)
		abort();
	registered[n_registered++] = test;
}

int count_open_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	ck_assert_ptr_nonnull(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int lowest_free_fd(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return fd;
}

void make_temporary_directory(char *ret, size_t size)
{
	const char *parent = getenv("TMPDIR");

	snprintf(ret, size, "%s/userevd-test-XXXXXX", parent && strlen(parent) < 32 ? parent : "/tmp");
	ck_assert_msg(mkdtemp(ret) != NULL, "%s: %s", ret, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status _unused_, int kind _unused_, struct FTW *at _unused_)
{
	return remove(path);
}

void remove_directory(const char *path)
{
	ck_assert_int_eq(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void remember_fds(void)
{
	fds_before = count_open_fds();
}

static void expect_the_same_fds(void)
{
	/* Before Linux 6.16 a thread closes fds of clients (kernel/disposal.c). */
	for (unsigned i = 0; i < 2000 && count_open_fds() != fds_before; i++)
		usleep(10000);
	ck_assert_msg(count_open_fds() == fds_before, "%d fds before the test, %d after it", fds_before,
		      count_open_fds());
}

void suite_check_fds(TCase *cases)
{
	tcase_add_checked_fixture(cases, remember_fds, expect_the_same_fds);
}

/* For a test that hangs. In a guest of a busy machine a test may take a hundred times as long as alone. */
enum { TEST_SECONDS_MAX = 300 };

int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int run_suite(const char *name, const TTest *const *tests, size_t n)
{
	Suite *suite = suite_create(name);

	/* Each test is a case, so that CK_RUN_CASE runs one. */
	for (size_t i = 0; i < n; i++) {
		TCase *one = tcase_create(tests[i]->name);

		tcase_set_timeout(one, TEST_SECONDS_MAX);
		suite_check_fds(one);
		tcase_add_test(one, tests[i]);
		suite_add_tcase(suite, one);
	}
	return suite_run(suite);
}

int run_all_tests(void)
{
	return run_suite(program_invocation_short_name, registered, n_registered);
}

/* Weak: a program that takes arguments has a main() of its own. */
__attribute__((weak)) int main(void)
{
	return run_all_tests();
}
