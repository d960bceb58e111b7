/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How much longer does a program take to start with an event that it declares (USEREV_EVENT), until main(), and until the event is
 * registered? Beside the same program without it, from exec() on. Another program of the tenant holds the event.
 */

#include <spawn.h>
#include <time.h>

#include "tests/bench/bench.h"

enum { TIMES = 60, TIMES_IN_GUEST = 12 };

static struct broker broker;

/* In memory, for the files of a guest are the host's, and slow. */
static void copy_sample(const char *name, char *ret, size_t size)
{
	const char *const copy[] = { "cp", built(name), ret, NULL };

	snprintf(ret, size, "/dev/shm/bench-%d-%s", (int)getpid(), strrchr(name, '/') + 1);
	if (!run(copy))
		fail(ret);
}

/* Runs a sample program; returns microseconds until each of the times that it prints. */
static void start_sample(const char *program, double *ret, unsigned n)
{
	char *const argv[] = { (char *)(uintptr_t)program, NULL };
	posix_spawn_file_actions_t actions;
	struct timespec time[2];
	double begin;
	int ends[2];
	pid_t pid;

	broker_rest(&broker);
	if (pipe(ends) < 0)
		fail("pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	begin = now();
	if (posix_spawn(&pid, program, &actions, NULL, argv, environ) != 0)
		fail(program);
	posix_spawn_file_actions_destroy(&actions);
	if (read(ends[0], time, sizeof(time)) != (ssize_t)(n * sizeof(*time)))
		fail(program);
	for (unsigned i = 0; i < n; i++)
		ret[i] = (double)time[i].tv_sec * 1e6 + (double)time[i].tv_nsec / 1e3 - begin;
	close(ends[0]);
	close(ends[1]);
	finish(pid, 0);
}

static char declared[64], plain[64];

static void compare(const char *how)
{
	static char description[1][NAME_BYTES] = { "bench_declared u32 turn; u64 cost" };
	struct side main_with = { .name = "declared event" }, registered = { .name = "declared event" };
	struct side without = { .name = "without" };
	unsigned times = has_user_events() ? pick(TIMES_IN_GUEST, 4) : pick(TIMES, 20);
	char question[96];
	int holder = connect_to_broker(&broker);

	ask_broker(holder, description, 1, NULL, NULL);
	setenv("USEREV_SOCKET", broker.socket, 1);
	for (unsigned i = 0; i < times; i++) {
		double with[2], alone;

		start_sample(declared, with, 2);
		start_sample(plain, &alone, 1);
		side_add(&main_with, with[0]);
		side_add(&registered, with[1]);
		side_add(&without, alone);
	}
	close(holder);
	snprintf(question, sizeof(question), "start of a program with a declared event, until main()%s", how);
	report(question, "us", &main_with, &without, 0);
	snprintf(question, sizeof(question), "start of a program with a declared event, until it is registered%s", how);
	report(question, "us", &registered, &without, 0);
}

int main(void)
{
	copy_sample("tests/sample_declared", declared, sizeof(declared));
	copy_sample("tests/sample_plain", plain, sizeof(plain));
	broker_start(&broker);
	compare("");
	broker_stop(&broker);
	if (has_user_events()) {
		broker = (struct broker){ .installed = true };
		broker_start(&broker);
		compare(", as installed");
		broker_stop(&broker);
	}
	unlink(declared);
	unlink(plain);
	return EXIT_SUCCESS;
}
