/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/profile.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/suite.h"

static pid_t start_compiler(const char *name, int output)
{
	pid_t pid = fork();

	if (pid == 0) {
		dup2(output, STDOUT_FILENO);
		execl("tests/systemd/oci.py", "oci.py", name, NULL);
		_exit(127);
	}
	return pid;
}

static size_t read_all(int fd, void *ret, size_t size)
{
	size_t length = 0;
	ssize_t n;

	while ((n = read(fd, (char *)ret + length, size - length)) > 0)
		length += (size_t)n;
	return length;
}

/* This is not in a test, and asserts nothing. */
bool profile_compile(const char *name, struct sock_fprog *ret)
{
	static struct sock_filter filter[BPF_MAXINSNS];
	size_t size = 0;
	int output[2], status = -1;
	pid_t pid;

	if (pipe2(output, O_CLOEXEC) == 0) {
		pid = start_compiler(name, output[1]);
		close(output[1]);
		size = read_all(output[0], filter, sizeof(filter));
		close(output[0]);
		waitpid(pid, &status, 0);
	}
	if (status != 0) {
		printf("not possible here: a filter of %s\n", name);
		return false;
	}
	ret->len = (unsigned short)(size / sizeof(*filter));
	ret->filter = memcpy(malloc(size), filter, size);
	return true;
}

void profile_enter(const struct sock_fprog *program)
{
	ck_assert_msg(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) == 0, "seccomp: %s", strerror(errno));
}
