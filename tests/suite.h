/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What every test program shares: one suite, one main(), and a fixture that finds leaked fds.
 *
 *	TEST(an_empty_set_has_nothing_to_steal) { … }
 *	SUITE(an_empty_set_has_nothing_to_steal, …)
 *
 * A test is a sentence. Each runs in a process of its own (check forks), so a crash is one failure and not the end.
 */

#include <check.h>

#include "protocol/base/base.h"

#define TEST(name) START_TEST(name)

/* Every test ends with as many open fds as it began with, or it fails. */
int count_open_fds(void);
int lowest_free_fd(void);

/* A directory of the test's own, below $TMPDIR, where run-tests.sh removes what a failed test leaves. Short: for sockets. */
void make_temporary_directory(char *ret, size_t size);

/* Runs the tests and returns the exit code for main(). */
int run_suite(const char *suite, const TTest *const *tests, size_t n);

#define SUITE(name, ...)                                                                                               \
	int main(void)                                                                                                 \
	{                                                                                                              \
		const TTest *const tests[] = { __VA_ARGS__ };                                                          \
		return run_suite(name, tests, ARRAY_SIZE(tests));                                                      \
	}
