/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include "kernel/privileges.h"
#include "tests/suite.h"

const char *loader_directory;
char loader_output[LOADER_OUTPUT_BYTES];
enum user { ROOT, NOBODY };

static _Noreturn void execute(enum user user, uint64_t capabilities, const char *arguments, int output)
{
	const char *build = getenv("B");
	char command[1024];

	snprintf(command, sizeof(command), "exec %s/userevd-guard --pin=%s %s", build ? build : "build",
		 loader_directory, arguments);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	if (user == NOBODY && privileges_become(1000, 1000) < 0)
		_exit(255);
	if (user == ROOT && capabilities != UINT64_MAX && privileges_keep(capabilities) < 0)
		_exit(255);
	execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(255);
}

static int run(enum user user, uint64_t capabilities, const char *arguments)
{
	size_t length = 0;
	int words[2], status = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe2(words, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		execute(user, capabilities, arguments, words[1]);
	close(words[1]);
	while ((n = read(words[0], loader_output + length, sizeof(loader_output) - 1 - length)) > 0)
		length += (size_t)n;
	loader_output[length] = '\0';
	close(words[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "the loader died: %s", loader_output);
	return WEXITSTATUS(status);
}

int loader(const char *format, ...)
{
	char arguments[512];
	va_list list;

	va_start(list, format);
	vsnprintf(arguments, sizeof(arguments), format, list);
	va_end(list);
	return run(ROOT, UINT64_MAX, arguments);
}

int loader_as_nobody(const char *arguments)
{
	return run(NOBODY, 0, arguments);
}

int loader_with(uint64_t capabilities, const char *arguments)
{
	return run(ROOT, capabilities, arguments);
}

bool is_pinned(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", loader_directory, name);
	return access(path, F_OK) == 0;
}

void find_pinned(const char *prefix, char *ret, size_t size)
{
	DIR *directory = opendir(loader_directory);
	const struct dirent *entry;
	unsigned found = 0;

	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		string_copy(ret, size, entry->d_name);
		found++;
	}
	closedir(directory);
	ck_assert_uint_eq(found, 1);
}

bool has_btf(void)
{
	return access("/sys/kernel/btf/vmlinux", R_OK) == 0;
}

/*
 * QEMU before 8.1 without KVM: a processor that calls a function while another processor is patching it (as attaching a program does)
 * may stop at a breakpoint that is gone already, and the guest's kernel dies of it. So there is but one processor for us.
 */
static void stay_on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

bool is_a_place_for_tests(void)
{
	const char *why = NULL;

	stay_on_one_cpu();

	if (geteuid() != 0)
		why = "the guard wants root";
	else if (access("/sys/kernel/tracing/user_events_data", W_OK) < 0)
		why = "this kernel has no user_events for the guard to guard";
	if (why)
		printf("0 passed, 0 failed, 1 skipped: %s\n", why);
	return !why;
}
