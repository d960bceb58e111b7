/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Daemon and keeper under the filters of their units (tests/systemd/confine.h): the filters are installed, and kill. */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/systemd/confine.h"

/* The two filters, and possibly those that the test itself has. */
static bool is_confined(pid_t pid)
{
	return proc_status(pid, "Seccomp:", 10) == 2 &&
	       proc_status(pid, "Seccomp_filters:", 10) == proc_status(getpid(), "Seccomp_filters:", 10) + 2;
}

DAEMON_TEST(daemon_is_killed_by_a_forbidden_system_call)
{
	int status;

	ck_assert(eventually(is_confined(fixture->pid)));
	status = fixture_end(fixture, fixture->pid, SIGUSR2);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "it ended with %#x", (unsigned)status);
}

DAEMON_TEST(keeper_and_children_are_killed_by_a_forbidden_call, .needs_kernel = "a keeper")
{
	pid_t children[8];
	size_t n = MIN(children_of(fixture->keeper, NULL, children, ARRAY_SIZE(children)), ARRAY_SIZE(children));

	ck_assert(is_confined(fixture->keeper));
	ck_assert(!has_enablers(fixture) || n > 0);
	for (size_t i = 0; i < n; i++)
		ck_assert(is_confined(children[i]));
	fixture_end(fixture, fixture->keeper, SIGUSR2);
}

#define HAS_REFUSED(call, answer) ((call) == -1 && errno == (answer))

/* 0, or the number of the attempt with another result. */
static int try_what_is_refused(void)
{
	int file = memfd_create("confined", MFD_CLOEXEC);
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const bool held[] = {
		true, /* so that no attempt has the number 0 */
		socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0,
		HAS_REFUSED(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT),
		HAS_REFUSED(socket(AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT),
		HAS_REFUSED(syscall(SYS_clone3, NULL, 0), ENOSYS),
		HAS_REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL), EPERM),
		HAS_REFUSED(unshare(CLONE_FILES | CLONE_NEWNS), EPERM),
		unshare(CLONE_FILES) == 0,
		HAS_REFUSED(setns(file, 0), EPERM),
		HAS_REFUSED(fchmod(file, 04755), EPERM),
		HAS_REFUSED(fchmodat(AT_FDCWD, "/nowhere", 02755, 0), EPERM),
		HAS_REFUSED(chmod("/nowhere", 04755), EPERM),
		HAS_REFUSED(mkdir("/nowhere/at/all", 02755), EPERM),
		HAS_REFUSED(syscall(SYS_openat2, -1, NULL, NULL, 0), ENOSYS),
		fchmod(file, 0755) == 0,
		HAS_REFUSED(personality(ADDR_NO_RANDOMIZE), EPERM),
		personality(0) == 0,
		HAS_REFUSED((intptr_t)mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			    EPERM),
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
		HAS_REFUSED(mprotect(memory, 4096, PROT_READ | PROT_EXEC), EPERM),
		HAS_REFUSED(pkey_mprotect(memory, 4096, PROT_EXEC, -1), EPERM),
		HAS_REFUSED((intptr_t)shmat(-1, NULL, SHM_EXEC), EPERM),
		mprotect(memory, 4096, PROT_READ) == 0,
	};

	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		if (!held[i])
			return (int)i;
	return 0;
}

TEST(other_restrictions_refuse_as_systemd_does)
{
	static const struct sock_filter all[] = { RETURN(SECCOMP_RET_ALLOW) };
	pid_t child = start_process();
	int status;

	if (child == 0) {
		confine(all, ARRAY_SIZE(all));
		_exit(try_what_is_refused());
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(status == 0, "the attempt with that number: %#x", (unsigned)status);
}
