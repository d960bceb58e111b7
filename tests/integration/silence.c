/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/silence.h"

#include <stdio.h>

#include <signal.h>
#include <sys/wait.h>

#include "tests/integration/machine.h"

char ctl_output[16384];

int run_ctl(const struct fixture *fixture, const char *const *words)
{
	const char *argv[16] = { built("userevctl") };
	size_t n = 1;

	while (*words && n < ARRAY_SIZE(argv) - 1)
		argv[n++] = *words++;
	return run_command(fixture, ctl_output, sizeof(ctl_output), argv);
}

pid_t start_ctl(const struct fixture *fixture, const char *const *words)
{
	const char *argv[16] = { built("userevctl") };
	size_t n = 1;
	pid_t pid;

	while (*words && n < ARRAY_SIZE(argv) - 1)
		argv[n++] = *words++;
	pid = start_process();
	if (pid > 0)
		return pid;
	setenv("USEREV_SOCKET", fixture->socket, 1);
	setenv("USEREV_CONTROL_SOCKET", fixture->control, 1);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void end_ctl(pid_t pid, int number)
{
	kill(pid, number);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

struct program program_in(const struct fixture *fixture, const char *name, const char *description)
{
	const char *directory = make_cgroup(name);
	struct program program;
	void *memory;

	string_copy(program.path, sizeof(program.path), cgroup_path(directory));
	program.actor = actor_in(fixture, directory, 0);
	snprintf(program.pid, sizeof(program.pid), "%d", (int)program.actor.pid);
	memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, program.actor.page, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	program.member = (struct member){ .socket = program.actor.socket, .stream = -1, .page = memory };
	if (description)
		member_register(&program.member, description);
	return program;
}

void program_end(struct program *program)
{
	munmap((void *)(uintptr_t)program->member.page, WIRE_PAGE_BYTES);
	fd_close(program->member.stream);
	actor_end(&program->actor);
}
