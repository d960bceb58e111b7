/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Registers, writes and releases any of a few dozen events, which other programs have, too. */

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "client/userev.h"
#include "protocol/base/base.h"
#include "tests/soak/programs.h"

enum { NAMES = 48, HELD = 16, PAUSE_US = 2000, CHILD_US = 100000, RECORDS = 8 };

struct program {
	struct dice dice;
	struct userev *userev;
	struct userev_event event[HELD];
	bool held[HELD];
};

static volatile sig_atomic_t ends;

static void on_signal(int signal _unused_)
{
	ends = 1;
}

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "a program: %s: %s (%s)\n", what, strerror(-error), userev_refusal());
	_exit(EXIT_FAILURE);
}

static void connect_again(struct program *program)
{
	if (program->userev)
		userev_close(program->userev);
	memset(program->held, 0, sizeof(program->held));
	memset(program->event, 0, sizeof(program->event));
	program->userev = userev_open(NULL, 0);
	if (!program->userev)
		fail("userev_open", -errno);
}

/* Policies and other programs may cause it. */
static bool is_refusal(int r)
{
	return r == -EDQUOT || r == -EEXIST || r == -ENOSPC || r == -EACCES || r == -EOPNOTSUPP;
}

/* Sometimes a name with other fields than usual. */
static void describe(struct program *program, char *ret, size_t size)
{
	static const char *const fields[] = { "u32 x", "u32 x; u64 y", "u32 x; char[8] z",
					      "u32 x; __rel_loc char[] s" };
	unsigned name = any(&program->dice, NAMES);
	unsigned other = any(&program->dice, 16) == 0;

	snprintf(ret, size, "soak_%u %s", name, fields[(name + other) % ARRAY_SIZE(fields)]);
}

static void take_event(struct program *program, unsigned i)
{
	unsigned flags = any(&program->dice, 8) == 0 ? USEREV_MULTI_FORMAT : 0;
	char description[96];
	int r;

	describe(program, description, sizeof(description));
	r = userev_register(program->userev, &program->event[i], description, flags);
	program->held[i] = r == 0;
	if (r == 0)
		deeds[REGISTERED]++;
	else if (is_refusal(r))
		deeds[REFUSED]++;
	else
		fail(description, r);
}

static void give_back(struct program *program, unsigned i)
{
	userev_release(program->userev, &program->event[i]);
	program->held[i] = false;
	deeds[RELEASED]++;
}

static void take_or_give_back(struct program *program)
{
	unsigned i = any(&program->dice, HELD);

	if (program->held[i])
		give_back(program, i);
	else
		take_event(program, i);
}

/* One that is held, if any is. */
static const struct userev_event *find_event(struct program *program)
{
	unsigned first = any(&program->dice, HELD), i = 0;

	while (i < HELD - 1 && !program->held[(first + i) % HELD])
		i++;
	return &program->event[(first + i) % HELD];
}

static void write_some(struct program *program)
{
	const struct userev_event *event = find_event(program);
	const uint8_t payload[16] = { 1 };

	for (unsigned n = any(&program->dice, RECORDS); n > 0; n--)
		if (userev_enabled(event) && userev_write(event, payload, sizeof(payload)) > 0)
			deeds[RECORDS_WRITTEN]++;
}

/* The child has copies of everything, and may live a little longer. */
static void leave_a_child(struct program *program)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork", -errno);
	if (pid > 0) {
		program->dice.state++;
		deeds[FORKED]++;
		return;
	}
	write_some(program);
	if (any(&program->dice, 2))
		take_or_give_back(program);
	usleep(any(&program->dice, CHILD_US));
	_exit(EXIT_SUCCESS);
}

static void act(struct program *program)
{
	unsigned what = any(&program->dice, 256);

	if (what < 120)
		take_or_give_back(program);
	else if (what < 230)
		write_some(program);
	else if (what < 240)
		userev_poll(program->userev, 0);
	else if (what < 250)
		leave_a_child(program);
	else if (what < 255)
		connect_again(program);
	else
		raise(SIGKILL);
}

void live_honestly(struct dice dice)
{
	static struct program program; /* outlives the library's pointers to its events */
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	signal(SIGCHLD, SIG_IGN);
	program.dice = dice;
	connect_again(&program);
	while (!ends) {
		act(&program);
		usleep(any(&program.dice, PAUSE_US));
	}
	if (any(&program.dice, 2))
		userev_close(program.userev);
	_exit(EXIT_SUCCESS);
}
