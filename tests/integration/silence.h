/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevctl's commands about one tenant, and programs in cgroups of their own, whose pages show what came of it. */

#include "tests/integration/cgroups.h"
#include "tests/integration/member.h"
#include "tests/integration/pair.h"

/* The tests are root, in what looks like a container, with files that no guard may protect. */
#define ROOT_IS_TRUSTED	  "[/**]\nAllowHostRoot=yes\n"
#define SILENT_TEST(name) DAEMON_TEST(name, .policy = ROOT_IS_TRUSTED, .needs_cgroups = "tenants of their own")

extern char ctl_output[16384];

/* userevctl's exit status; its output is in ctl_output. */
int run_ctl(const struct fixture *fixture, const char *const *words);

/* The same in the background. */
pid_t start_ctl(const struct fixture *, const char *const *words);
#define START(...) start_ctl(fixture, (const char *const[]){ __VA_ARGS__, NULL })
void end_ctl(pid_t, int number);

#define CTL(...) run_ctl(fixture, (const char *const[]){ __VA_ARGS__, NULL })
#define expect_ctl(status, words, ...)                                                                                 \
	do {                                                                                                           \
		ck_assert_msg(CTL(__VA_ARGS__) == (status), "%s", ctl_output);                                         \
		ck_assert_msg(strstr(ctl_output, words), "'%s': %s", words, ctl_output);                               \
	} while (0)

/* A program in a cgroup, of which the test has the connection and the page. */
struct program {
	struct actor actor;
	struct member member;
	char path[256], pid[16];
};

struct program program_in(const struct fixture *fixture, const char *name, const char *description);
void program_end(struct program *program);

#define PROGRAM(name, cgroup, description)                                                                             \
	_cleanup_(program_end) struct program name = program_in(fixture, cgroup, description)

static inline bool is_on(const struct program *program)
{
	return member_is_on(&program->member, 0);
}
