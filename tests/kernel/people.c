/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/kernel/people.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { UNPRIVILEGED_UID = 1000, NO_ANSWER = 111 };

static bool put(const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A dumpable process owns its /proc/self, so refusals there have another cause. */
static bool become_unprivileged(void)
{
	return setgroups(0, NULL) == 0 && setresgid(UNPRIVILEGED_UID, UNPRIVILEGED_UID, UNPRIVILEGED_UID) == 0 &&
	       setresuid(UNPRIVILEGED_UID, UNPRIVILEGED_UID, UNPRIVILEGED_UID) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

static bool become_namespace_root(void)
{
	return become_unprivileged() && unshare(CLONE_NEWUSER) == 0 && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", "0 1000 1") && put("/proc/self/gid_map", "0 1000 1") && getuid() == 0;
}

static bool become_powerless(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { 0 };

	for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
		if (prctl(PR_CAPBSET_DROP, capability) < 0)
			return false;
	return syscall(SYS_capset, &header, none) == 0;
}

static bool become(enum who who)
{
	switch (who) {
	case ROOT:
		return true;
	case UNPRIVILEGED:
		return become_unprivileged();
	case NAMESPACE_ROOT:
		return become_namespace_root();
	case POWERLESS_ROOT:
		return become_powerless();
	}
	return false;
}

static struct person start(void)
{
	struct person person;
	int ends[2];

	fflush(NULL);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	person.pid = fork();
	ck_assert_int_ge(person.pid, 0);
	person.pipe = ends[person.pid == 0 ? 1 : 0];
	close(ends[person.pid == 0 ? 0 : 1]);
	return person;
}

struct person person_start(enum who who)
{
	struct person person = start();

	if (person.pid == 0 && !become(who)) {
		/* In a chroot nobody gets a user namespace: a guest has to move its root. */
		perror("can't become another");
		_exit(NO_ANSWER);
	}
	return person;
}

void person_answer(const struct person *person, int answer)
{
	_exit(write(person->pipe, &answer, sizeof(answer)) == sizeof(answer) ? 0 : NO_ANSWER);
}

int person_result(struct person *person)
{
	ssize_t n;
	int answer, status;

	n = read(person->pipe, &answer, sizeof(answer));
	person->pipe = fd_close(person->pipe);
	ck_assert_int_eq(waitpid(person->pid, &status, 0), person->pid);
	ck_assert_msg(n == sizeof(answer), "the other process ended without an answer (status %#x)", status);
	return answer;
}

/* End of file means that the companion has ended; the test then fails. */
struct person companion_start(void)
{
	struct person person;
	int ends[2];
	char byte;

	fflush(NULL);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	person.pid = fork();
	ck_assert_int_ge(person.pid, 0);
	person.pipe = ends[1];
	if (person.pid == 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : NO_ANSWER);
	}
	close(ends[0]);
	return person;
}

void companion_end(struct person *person)
{
	int status;

	person->pipe = fd_close(person->pipe);
	ck_assert_int_eq(waitpid(person->pid, &status, 0), person->pid);
	ck_assert_int_eq(status, 0);
}
