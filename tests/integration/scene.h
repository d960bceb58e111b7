/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Two tenants: the test, which tries to use up something of the daemon's, and a neighbour in a process of its own, which goes
 * on registering, watching, asking and releasing. Each of its requests must be granted, and the daemon must come back to what
 * it was; what the neighbour noticed of it all is printed, as a row of a table: time decides no test.
 */

#include "tests/integration/actor.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

struct neighbour;

struct scene {
	struct fixture fixture;
	struct neighbour *neighbour; /* in memory that its process shares */
	pid_t pid;
	uint64_t memory; /* of the daemon, in KiB, before anything happened */
};

/* Starts a daemon that takes each process for a tenant, and the neighbour, and watches it alone for a while. */
void scene_begin(struct scene *, const char *policy, const char *const *options);
/* The same in two steps, for a test that changes the daemon's directory before the daemon starts. */
void scene_prepare(struct scene *, const char *policy);
void scene_launch(struct scene *, const char *const *options);
/*
 * Measures the neighbour once more beside ordinary work, which is done again and again meanwhile: two tenants that share a
 * processor and a keeper make each other wait in any case. The row then shows what the attack adds.
 */
void scene_measure_beside(struct scene *, void (*ordinary)(const struct scene *, unsigned round));
/* While the worst goes on: returns when the neighbour has done a good deal of its work since. */
void scene_go_on(struct scene *);
/* A new client connects now, and is served. */
void scene_take_newcomer(const struct scene *);
/*
 * All that was tried is over: a newcomer is served, the neighbour was, and nothing is left; the daemon's memory has never
 * grown by more than so many KiB. Prints the row, which begins with these words.
 */
void scene_end(struct scene *, uint64_t kib, const char *format, ...) _printf_(3, 4);

/* As many connections as were asked for, or as a process may have here. */
unsigned most_connections(unsigned wanted);
/* Connects n times and says hello, unless nothing is to be said. The answers are not waited for. */
void connect_many(const struct scene *, int *sockets, unsigned n, bool greet);
void close_many(int *fds, unsigned n);
