/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Two tenants: the test, which tries to use up a resource of the daemon's, and a neighbour in a process of its own, which goes
 * on registering, watching, asking and releasing. Each of its requests must be granted, and in the end the daemon must hold no more than
 * at the beginning. How long the neighbour waited is printed as a row of a table: time decides no test.
 */

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

struct neighbour;

struct scene {
	struct fixture fixture;
	struct neighbour *neighbour; /* in memory that its process shares */
	pid_t pid;
	uint64_t memory; /* of the daemon, in KiB, before anything happened */
};

/*
 * A test that begins with a scene, unless this machine lacks something that it needs, and ends with scene_end(): with a daemon that takes
 * each process for a tenant, and the neighbour, which has worked alone for a while.
 *
 *	SCENE_TEST(name, .options = { "--max-events=64" }) { … scene_end(scene, 4096, "…"); }
 */
#define SCENE_TEST(name, ...)                                                                                          \
	static void name##_with(struct scene *scene);                                                                  \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		scene_run(&(const struct daemon_test){ __VA_ARGS__ }, name##_with);                                    \
	}                                                                                                              \
	static void name##_with(struct scene *scene)

void scene_run(const struct daemon_test *, void (*test)(struct scene *));
/* The beginning, in two steps: for a test that changes the daemon's directory before the daemon starts. */
void scene_prepare(struct scene *, const char *policy);
void scene_launch(struct scene *, const char *const *options);
/*
 * Measures the neighbour once more beside ordinary work, which is done again and again meanwhile: two tenants that share a
 * processor and a keeper make each other wait in any case. The row then shows what the attack adds.
 */
void scene_measure_beside(struct scene *, void (*ordinary)(const struct scene *, unsigned round));
/* Waits until the neighbour has done many more requests. */
void scene_go_on(struct scene *);
/* A new client connects now, and is served. */
void scene_take_newcomer(const struct scene *);
/*
 * The attack is over: a newcomer is served, the neighbour was, and nothing is left; the daemon's memory has never
 * grown by more than so many KiB. Prints the row, which begins with these words.
 */
void scene_end(struct scene *, uint64_t kib, const char *format, ...) _printf_(3, 4);

/* Connects n times, and sends HELLO if wanted, but doesn't wait for the answers. */
void connect_many(const struct scene *, int *sockets, unsigned n, bool greet);
void close_many(int *fds, unsigned n);
