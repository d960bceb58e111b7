/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/programs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

enum { OPTIONS_MAX = 24, FIRST_FD = 3 };

/* The tests are in build/tests/, the programs in build/. Looked up once: in another mount namespace the link leads nowhere. */
const char *built(const char *name)
{
	static char directory[PATH_MAX - 64], path[PATH_MAX];

	if (!*directory) {
		ck_assert_int_gt(readlink("/proc/self/exe", directory, sizeof(directory) - 1), 0);
		*strrchr(directory, '/') = '\0';
		*strrchr(directory, '/') = '\0';
	}
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* The child's fds from 3 on, with these names, if any. */
static void hand_over(const int *fds, size_t n, const char *names)
{
	char text[32];
	int moved[4];

	for (size_t i = 0; i < n; i++)
		moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
	for (size_t i = 0; i < n; i++)
		dup2(moved[i], FIRST_FD + (int)i);
	if (!names)
		return;
	close_range(FIRST_FD + (unsigned)n, ~0U, 0);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%zu", n);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

pid_t start_program(const char *program, const char *log, const char *const *options, const int *fds, size_t n,
		    const char *names)
{
	const char *path = built(program), *argv[OPTIONS_MAX] = { path };
	pid_t pid = start_process();

	if (pid > 0)
		return pid;
	for (size_t i = 0; options && options[i] && i < OPTIONS_MAX - 2; i++)
		argv[i + 1] = options[i];
	if (log) {
		dup2(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	hand_over(fds, n, names);
	execv(path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

void copy_built(const char *name, const char *to)
{
	const char *const argv[] = { "/bin/cp", built(name), to, NULL };
	char output[256];

	ck_assert_msg(run_command(NULL, output, sizeof(output), argv) == 0, "%s", output);
}

int run_command(const struct fixture *fixture, char *output, size_t size, const char *const *argv)
{
	int out[2], status;
	size_t length = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		if (fixture) {
			setenv("USEREV_SOCKET", fixture->socket, 1);
			setenv("USEREV_CONTROL_SOCKET", fixture->control, 1);
		}
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(out[1]);
	while (length < size - 1 && (n = read(out[0], output + length, size - 1 - length)) > 0)
		length += (size_t)n;
	output[length] = '\0';
	close(out[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
