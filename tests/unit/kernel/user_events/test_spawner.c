/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The processes that the spawner forks, and a spawner that dies. */

#include "kernel/user_events/spawner.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kernel/user_events/enabler.h"
#include "protocol/transport.h"
#include "tests/suite.h"

/* Shared with the spawner. */
static struct shared {
	bool dies; /* before it answers */
	pid_t unanswered;
} * shared;

int clone(int (*run)(void *), void *stack, int flags, void *data, ...)
{
	int (*real)(int (*)(void *), void *, int, void *, ...) =
		(int (*)(int (*)(void *), void *, int, void *, ...))dlsym(RTLD_NEXT, "clone");
	pid_t pid = real(run, stack, flags, data);

	if (shared->dies) {
		shared->dies = false;
		shared->unanswered = pid;
		_exit(EXIT_FAILURE);
	}
	return pid;
}

static void begin(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

/* A request for a page without its file is refused by a process that lives. */
static void expect_an_enabler(int socket)
{
	const struct enabler_request request = { .kind = ENABLER_REMOVE, .count = 1 };
	struct enabler_answer answer = { 0 };
	const int file = STDIN_FILENO;

	ck_assert_int_eq(transport_send(socket, &request, sizeof(request), &file, 1, 0), 0);
	ck_assert_int_eq(answer_receive(socket, &answer, sizeof(answer)), 0);
	ck_assert_int_eq(answer.result, -EINVAL);
}

static void expect_the_end(pid_t pid)
{
	pid_t ended = 0;

	for (unsigned tries = 0; ended == 0 && tries < 5000; tries++) {
		usleep(1000);
		ended = waitpid(pid, NULL, WNOHANG);
	}
	ck_assert_int_eq(ended, pid);
}

TEST(dead_spawner_is_replaced)
{
	struct spawner spawner = { .fd = -1 };
	int before = count_open_fds(), one, other;
	pid_t first, second, dead;

	begin();
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &one, &first), 0);
	dead = spawner.pid;
	ck_assert_int_eq(kill(dead, SIGKILL), 0);
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &other, &second), 0);
	ck_assert_int_ne(spawner.pid, dead);
	expect_an_enabler(one);
	expect_an_enabler(other);
	close(one);
	close(other);
	expect_the_end(first);
	expect_the_end(second);
	spawner_end(&spawner);
	ck_assert_int_eq(count_open_fds(), before);
}

/* The enabler would take requests of the enabler that is started instead, if they had one socket. */
TEST(enabler_of_spawner_that_died_unheard_ends)
{
	struct spawner spawner = { .fd = -1 };
	int before = count_open_fds(), one, other;
	pid_t first, second;

	begin();
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &one, &first), 0);
	shared->dies = true;
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &other, &second), 0);
	ck_assert_int_ne(second, shared->unanswered);
	expect_the_end(shared->unanswered);
	expect_an_enabler(other);
	close(one);
	close(other);
	expect_the_end(first);
	expect_the_end(second);
	/* A spawner that can start none is not asked for ever. */
	shared->dies = true;
	spawner_end(&spawner);
	ck_assert_int_eq(spawner_spawn(&spawner, 10, &one, &first), -EPIPE);
	expect_the_end(shared->unanswered);
	spawner_end(&spawner);
	ck_assert_int_eq(count_open_fds(), before);
}
