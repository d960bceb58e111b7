/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Common to all test programs: one suite, one main(), and a fixture that finds leaked fds.
 *
 *	TEST(empty_set_has_nothing_to_steal) { … }
 *
 * A test registers itself, and main() runs all tests of the program. Each runs in a process of its own (check forks), so a crash
 * is one failure and not the end.
 */

#include <check.h>

#include "protocol/base/base.h"

#define TEST(name)                                                                                                     \
	static const TTest *name;                                                                                      \
	__attribute__((constructor)) static void name##_is_registered(void)                                            \
	{                                                                                                              \
		suite_add(name);                                                                                       \
	}                                                                                                              \
	START_TEST(name)

void suite_add(const TTest *test);

/* Every test ends with as many open fds as it began with, or it fails. */
int count_open_fds(void);
int lowest_free_fd(void);

/* A directory of the test's own, below $TMPDIR, where run-tests.sh removes what a failed test leaves. Short: for sockets. */
void make_temporary_directory(char *ret, size_t size);
void remove_directory(const char *);

/* Looks at the open fds before and after each test of these. */
void suite_check_fds(TCase *cases);
/* Runs a suite that was put together by hand, and frees it. The exit code. */
int suite_run(Suite *suite);
/* For a program with a main() of its own: runs all tests, or only these, and returns the exit code. */
int run_all_tests(void);
int run_suite(const char *suite, const TTest *const *tests, size_t n);
