/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Pipes start and end them, so that waiting costs nothing. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/bench/bench.h"

static void wait_for_close(const int ends[2])
{
	char byte;

	close(ends[1]);
	while (read(ends[0], &byte, 1) > 0)
		;
}

static void wait_for_all(const struct programs *programs)
{
	char byte;

	for (unsigned i = 0; i < programs->n; i++)
		if (read(programs->done[0], &byte, 1) != 1)
			fail("a program");
}

static void say_done(const struct programs *programs)
{
	if (write(programs->done[1], "d", 1) != 1)
		_exit(EXIT_FAILURE);
}

static _Noreturn void be_one(const struct programs *programs, unsigned number)
{
	int prepared = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (programs->prepare)
		prepared = programs->prepare(number);
	say_done(programs);
	wait_for_close(programs->open);
	programs->work(prepared, number);
	say_done(programs);
	wait_for_close(programs->leave);
	_exit(EXIT_SUCCESS);
}

void programs_start(struct programs *programs)
{
	programs->pid = calloc(programs->n, sizeof(*programs->pid));
	if (!programs->pid || pipe(programs->open) < 0 || pipe(programs->leave) < 0 || pipe(programs->done) < 0)
		fail("pipe");
	for (unsigned i = 0; i < programs->n; i++) {
		programs->pid[i] = fork();
		if (programs->pid[i] < 0)
			fail("fork");
		if (programs->pid[i] == 0)
			be_one(programs, i);
	}
	wait_for_all(programs);
	/* Until the last ones wait for the pipe. */
	usleep(100000);
}

double programs_run(struct programs *programs)
{
	double begin = now();

	close(programs->open[1]);
	wait_for_all(programs);
	return now() - begin;
}

void programs_stop(struct programs *programs)
{
	close(programs->leave[1]);
	for (unsigned i = 0; i < programs->n; i++)
		waitpid(programs->pid[i], NULL, 0);
	close(programs->open[0]);
	close(programs->leave[0]);
	close(programs->done[0]);
	close(programs->done[1]);
	free(programs->pid);
}
