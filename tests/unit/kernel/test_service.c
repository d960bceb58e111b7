/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The test plays systemd. Names and kinds of fds are in test_systemd.c and test_handover.c. */

#include "kernel/service.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/suite.h"

enum { FIRST_FD = 3, FDS = 3, FAILED = 100 };

struct taken {
	int n;
	int fails_at; /* -1: never */
};

static int take(void *data, int fd, const char *name)
{
	struct taken *taken = data;
	const bool is_expected =
		fd == FIRST_FD + taken->n && name[0] == 'a' + taken->n && !name[1] && fcntl(fd, F_GETFD) & FD_CLOEXEC;

	close(fd);
	if (!is_expected)
		_exit(FAILED);
	return taken->n++ == taken->fails_at ? -EPROTO : 0;
}

/* In a child with three fds: how many of them were taken, or the errno. */
static int take_in_child(const char *pid, const char *number, const char *names, int fails_at)
{
	pid_t child = fork();
	int status = 0;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct taken taken = { .fails_at = fails_at };
		char own[16];
		int r;

		for (int fd = FIRST_FD; fd < FIRST_FD + FDS; fd++)
			dup2(STDERR_FILENO, fd);
		snprintf(own, sizeof(own), "%d", (int)getpid());
		setenv("LISTEN_PID", pid ? pid : own, 1);
		setenv("LISTEN_FDS", number, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		r = service_take_fds(take, &taken);
		if (getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES"))
			_exit(FAILED);
		for (int fd = FIRST_FD; fd < FIRST_FD + FDS && r < 0 && r != -E2BIG; fd++)
			if (fcntl(fd, F_GETFD) >= 0)
				_exit(FAILED);
		_exit(r < 0 ? -r : r == taken.n ? r : FAILED);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(passed_fds_are_taken_in_their_order)
{
	ck_assert_int_eq(take_in_child(NULL, "3", "a:b:c", -1), FDS);
}

TEST(fds_of_another_process_are_not_taken)
{
	ck_assert_int_eq(take_in_child("1", "3", "a:b:c", -1), 0);
	ck_assert_int_eq(take_in_child("", "3", "a:b:c", -1), 0);
}

TEST(fds_behind_a_failure_are_closed)
{
	ck_assert_int_eq(take_in_child(NULL, "3", "a:b:c", 0), EPROTO);
	ck_assert_int_eq(take_in_child(NULL, "3", "a:b", -1), EINVAL);
	ck_assert_int_eq(take_in_child(NULL, "1025", "a:b:c", -1), E2BIG);
}

TEST(watchdog_of_this_process_has_its_time)
{
	uint64_t time = 0;

	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	ck_assert(!service_has_watchdog(&time));
	setenv("WATCHDOG_USEC", "3000000", 1);
	ck_assert(service_has_watchdog(&time));
	ck_assert_uint_eq(time, 3000000);
	setenv("WATCHDOG_PID", "1", 1);
	ck_assert(!service_has_watchdog(&time));
	unsetenv("WATCHDOG_PID");
	setenv("WATCHDOG_USEC", "0", 1);
	ck_assert(!service_has_watchdog(&time));
	setenv("WATCHDOG_USEC", "-3", 1);
	ck_assert(!service_has_watchdog(&time));
}

TEST(notification_without_systemd_is_not_sent)
{
	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(service_notify("READY=1", NULL, 0), -ENOTCONN);
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	ck_assert_int_eq(service_notify("READY=1", NULL, 0), -ENOENT);
}
