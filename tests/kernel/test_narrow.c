/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* Programs of 32 bits; narrow.c is one. */

enum { IOCTLS = 6, ANSWERS = IOCTLS + 1, DATA_FD = 3, ANSWERS_FD = 4, OUT_OF_THE_WAY = 10 };

/* Beside the test, in "kernel". */
static void find_program(char *ret, size_t size)
{
	char path[400];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	ck_assert_int_gt(n, 0);
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	snprintf(ret, size, "%s/kernel/narrow", path);
	ck_assert_msg(access(ret, X_OK) == 0, "%s: %s", ret, strerror(errno));
}

/* 0, or the error of starting the program. */
static int spawn(int stream, int answers, const char *text, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	char program[512], *const argv[] = { program, (char *)(uintptr_t)text, NULL };
	int data = fcntl(stream, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY), r;

	answers = fcntl(answers, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	find_program(program, sizeof(program));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, data, DATA_FD);
	posix_spawn_file_actions_adddup2(&actions, answers, ANSWERS_FD);
	r = posix_spawn(ret_pid, program, &actions, NULL, argv, NULL);
	posix_spawn_file_actions_destroy(&actions);
	close(data);
	close(answers);
	return r;
}

/* 0 with the program's answers, or the error of starting the program. */
static int run(int stream, const char *text, int32_t answers[ANSWERS])
{
	int pipe[2], status, r;
	pid_t pid;

	ck_assert_int_eq(pipe2(pipe, O_CLOEXEC), 0);
	r = spawn(stream, pipe[1], text, &pid);
	close(pipe[1]);
	if (r == 0) {
		ck_assert_int_eq(read(pipe[0], answers, ANSWERS * sizeof(*answers)), ANSWERS * sizeof(*answers));
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	close(pipe[0]);
	return r;
}

TEST(a_program_of_32_bits_may_call_nothing_and_write)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	int32_t answers[ANSWERS];

	ck_assert_int_eq(join(stream, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(run(stream, machine.other_text, answers), 0);
	for (size_t i = 0; i < IOCTLS; i++)
		ck_assert_int_eq(answers[i], ENOTTY);
	ck_assert(!event_exists(machine.other));
	ck_assert_int_eq(answers[IOCTLS], 8);
	ck_assert_uint_eq(count_records(machine.event), 1);
}
END_TEST

/* tests/vm/kernel-6.1.defconfig is without CONFIG_IA32_EMULATION. */
TEST(this_kernel_was_built_without_programs_of_32_bits)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	int32_t answers[ANSWERS];

	ck_assert_int_eq(run(machine.data, machine.text, answers), ENOEXEC);
}
END_TEST

PROMISES("narrow", ENABLE_ADDRESS(a_program_of_32_bits_may_call_nothing_and_write),
	 STATUS_PAGE(this_kernel_was_built_without_programs_of_32_bits))
