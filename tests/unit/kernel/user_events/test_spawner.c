/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The processes that the spawner forks, and a spawner that dies. */

#include "kernel/user_events/spawner.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "kernel/user_events/enabler.h"
#include "protocol/transport.h"
#include "tests/suite.h"

/* Instead of starting an enabler process. */
static bool spawner_dies;

int clone(int (*run)(void *), void *stack, int flags, void *data, ...)
{
	int (*real)(int (*)(void *), void *, int, void *, ...) =
		(int (*)(int (*)(void *), void *, int, void *, ...))dlsym(RTLD_NEXT, "clone");

	if (spawner_dies)
		_exit(EXIT_FAILURE);
	return real(run, stack, flags, data);
}

/* A request without its item is refused by a process that lives. */
static void expect_an_enabler(int socket)
{
	const struct enabler_request request = { .kind = ENABLER_REMOVE, .count = 1 };
	struct enabler_answer answer = { 0 };
	const int file = STDIN_FILENO;

	ck_assert_int_eq(transport_send(socket, &request, sizeof(request), &file, 1, 0), 0);
	ck_assert_int_eq(answer_receive(socket, &answer, sizeof(answer)), 0);
	ck_assert_int_eq(answer.result, -EPROTO);
}

TEST(spawned_processes_are_enablers)
{
	struct spawner spawner = { .fd = -1 };
	int before = count_open_fds(), one, other, status;
	pid_t first, second;

	ck_assert_int_eq(spawner_spawn(&spawner, 10, &one, &first), 0);
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &other, &second), 0);
	expect_an_enabler(one);
	expect_an_enabler(other);
	close(one);
	close(other);
	/* They are this process's children, and end with their sockets. */
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(waitpid(second, &status, 0), second);
	ck_assert_int_eq(status, 0);
	spawner_end(&spawner);
	ck_assert_int_eq(count_open_fds(), before);
}

/* Before it is asked, or before it answers. */
TEST(keeper_ends_if_its_spawner_has_died)
{
	for (unsigned way = 0; way < 2; way++) {
		pid_t keeper = fork(), enabler;
		struct spawner spawner = { .fd = -1 };
		int status, socket;

		if (keeper == 0) {
			spawner_dies = way == 1;
			if (way == 0) {
				spawner_spawn(&spawner, 10, &socket, &enabler);
				kill(spawner.pid, SIGKILL);
				waitpid(spawner.pid, NULL, 0);
			}
			spawner_spawn(&spawner, 10, &socket, &enabler);
			_exit(EXIT_SUCCESS);
		}
		ck_assert_int_eq(waitpid(keeper, &status, 0), keeper);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), EXIT_FAILURE);
	}
}
