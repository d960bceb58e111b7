/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 *	kill_at [--stop | --pause] N COMMAND [ARGUMENT…]
 *
 * Kills the command before its Nth system call that may change something. Between two of them nothing changes, so with each N the command
 * was killed in each state that it goes through. The exit status is 137; the command's own if it ends before that.
 *
 * --stop: stops it behind that call instead (SIGSTOP); it goes on after a SIGCONT.
 * --pause: it goes on PAUSE_MS later, by itself.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/ptrace.h>

#include "protocol/base/base.h"

enum { EXIT_BROKEN = 99, SYSCALL_STOP = SIGTRAP | 0x80, PAUSE_MS = 50 };
enum at_call { KILL, STOP, PAUSE };

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "kill_at: %s: %s\n", what, strerror(errno));
	exit(EXIT_BROKEN);
}

static bool may_change(const struct ptrace_syscall_info *call)
{
	static const uint64_t changing[] = {
		SYS_write,     SYS_pwrite64,  SYS_writev,   SYS_mkdirat, SYS_unlinkat,
		SYS_renameat2, SYS_ftruncate, SYS_fchmodat, SYS_flock,	 SYS_exit_group,
#ifdef SYS_mkdir
		SYS_mkdir,     SYS_rmdir,     SYS_unlink,   SYS_rename,
#endif
	};

	/* To open a file of tracefs may truncate it. */
	if (call->entry.nr == SYS_openat)
		return (call->entry.args[2] & O_ACCMODE) != O_RDONLY;
	for (size_t i = 0; i < ARRAY_SIZE(changing); i++)
		if (call->entry.nr == changing[i])
			return true;
	return false;
}

/* Also waits for the end of a command that is stopped. */
static int end_at_call(pid_t command, enum at_call what)
{
	int status;

	kill(command, what == STOP ? SIGSTOP : SIGKILL);
	if (what == STOP && ptrace(PTRACE_DETACH, command, NULL, NULL) < 0)
		die("PTRACE_DETACH");
	if (waitpid(command, &status, 0) != command)
		die("waitpid");
	return status;
}

/* The command's status. `calls`: it is killed or pauses before the last of so many, or is stopped behind it. */
static int run_until(pid_t command, unsigned long calls, enum at_call what)
{
	int status, passed = 0;

	while (waitpid(command, &status, 0) == command && WIFSTOPPED(status)) {
		struct ptrace_syscall_info call = { 0 };

		passed = 0;
		if (WSTOPSIG(status) != SYSCALL_STOP)
			passed = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		else if (ptrace(PTRACE_GET_SYSCALL_INFO, command, (void *)sizeof(call), &call) < 0)
			die("PTRACE_GET_SYSCALL_INFO");
		if (call.op == PTRACE_SYSCALL_INFO_ENTRY && may_change(&call) && --calls == 0) {
			if (what != PAUSE)
				return end_at_call(command, what);
			usleep(PAUSE_MS * 1000);
		}
		if (ptrace(PTRACE_SYSCALL, command, NULL, (void *)(intptr_t)passed) < 0)
			die("PTRACE_SYSCALL");
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";
	const enum at_call what = strcmp(option, "--stop") == 0 ? STOP : strcmp(option, "--pause") == 0 ? PAUSE : KILL;
	const int first = what == KILL ? 1 : 2;
	unsigned long calls = argc > first + 1 ? strtoul(argv[first], NULL, 10) : 0;
	pid_t command;
	int status;

	if (calls == 0) {
		fprintf(stderr, "usage: kill_at [--stop | --pause] N COMMAND [ARGUMENT...]\n");
		return EXIT_BROKEN;
	}
	command = fork();
	if (command == 0) {
		/* The parent sets its options before the command begins. */
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
			die("PTRACE_TRACEME");
		execvp(argv[first + 1], &argv[first + 1]);
		die(argv[first + 1]);
	}
	if (command < 0 || waitpid(command, &status, 0) != command || !WIFSTOPPED(status))
		die("fork");
	if (ptrace(PTRACE_SETOPTIONS, command, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) < 0 ||
	    ptrace(PTRACE_SYSCALL, command, NULL, NULL) < 0)
		die("PTRACE_SETOPTIONS");
	status = run_until(command, calls, what);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
