/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Cgroups of a run's own, where this machine lets us make some, and the tenants and holders of events that the daemon sees in
 * them. They lie below one that has the test's pid in its name, which main() removes in any case.
 */

#include "tests/integration/actor.h"
#include "tests/integration/fixture.h"

/* For main(): finds a place for cgroups, runs the program's tests, and removes the cgroups. Returns the exit code. */
int run_tests_in_cgroups(void);
/* The same in pieces. */
void cgroups_find_room(void);
void cgroups_remove_all(void);

/* False, having printed why, if there can be no cgroups. */
bool need_cgroups(const char *what);
/* Why there can be none; NULL: there can. */
const char *why_no_cgroups(void);

/* The directory of ours. */
const char *top_cgroup(void);
/* A cgroup below ours, made if it was not there. Its directory, in one of a few buffers. */
const char *make_cgroup(const char *name);
/* Kills its processes, and removes it with all cgroups below. */
void remove_cgroup(const char *directory);
/* Its path in policy files and in /proc/PID/cgroup. */
const char *cgroup_path(const char *directory);

/* A process there that has said hello, of that user (0: of the test's). */
struct actor actor_in(const struct fixture *, const char *directory, uid_t uid);
void move_to(pid_t pid, const char *directory);
/* Sets systemd's mark of a delegated cgroup; false, having printed it: not possible here. */
bool delegate(const char *directory);

/* Tenants, as the daemon sees them. */

struct seen_tenant {
	char path[256];
	uint64_t cgroup_id;
	uint64_t connections;
	uint64_t events;
	uint64_t lingering;
};

struct seen_tenants {
	size_t n;
	struct seen_tenant tenant[8];
};

/* In the order in which they came. */
void see_tenants(const struct fixture *, struct seen_tenants *ret);
/* Whether it is the tenant of that cgroup, as it is now. */
bool is_tenant(const struct seen_tenant *, const char *directory);
/* The tenants are those of these cgroups, in the order in which they came: expect_tenants(fixture, one, another). */
#define expect_tenants(fixture, ...) expect_these_tenants(fixture, (const char *const[]){ __VA_ARGS__, NULL })
struct seen_tenants expect_these_tenants(const struct fixture *, const char *const *directories);
/* The holder of an event; of many, the last that is listed. */
struct seen_holder {
	const char *event;
	char tenant[256], comm[32];
	uint64_t n, pid, uid, total;
};

struct seen_holder holder_of(const struct fixture *, const char *event);
