/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Daemon and keeper side by side, as systemd starts them: each is handed its listening sockets, which outlive it, and either
 * may be ended and started again without the other. Tests ask and trace them through the fixture.
 */

#include "tests/integration/fixture.h"

struct pair {
	struct fixture fixture; /* of the daemon, as far as it is needed to trace and to ask */
	char keeper_socket[96];
	int clients; /* listening */
	int control;
	int keepers;
	const char *guard;	/* an option of the keeper's */
	const char *native;	/* another one; NULL: none */
	const char *options[3]; /* of the daemon's, for its backend */
	const char *program;	/* the next daemon's, in build/ */
	bool at_once;		/* the daemon is killed without time to deposit connections */
	pid_t daemon;		/* 0: none */
	pid_t keeper;
};

/*
 * A test of a pair of its own, with that guard: pair_start() comes before the body. Behind it nothing may be charged any more, and
 * pair_stop() follows.
 */
#define PAIR_TEST(name, guard)                                                                                         \
	static void name##_with(struct pair *pair, struct fixture *fixture);                                           \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		pair_run(guard, name##_with);                                                                          \
	}                                                                                                              \
	static void name##_with(struct pair *pair, struct fixture *fixture)

void pair_run(const char *guard, void (*test)(struct pair *, struct fixture *));

/* False, having printed why, where this machine has no user_events. */
bool pair_start(struct pair *, const char *guard);
/* The daemon alone, which is the tracer and keeps few records: no keeper. */
void pair_start_embedded(struct pair *);
void pair_start_daemon(struct pair *);
void pair_start_keeper(struct pair *);
/* Sends that signal, and waits for the end. */
void pair_end_daemon(struct pair *, int signal);
void pair_end_keeper(struct pair *, int signal);
/* Ends the daemon by that signal, and starts a new daemon. */
void pair_restart_daemon(struct pair *, int signal);
/* The daemon answers, so it has taken over everything. */
void pair_wait(struct pair *);
/* Ends both; fails if an event is left in the kernel. */
void pair_stop(struct pair *);
