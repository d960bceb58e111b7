/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The tenant of a connection, and the charges of its requests: with real cgroups, as containers have them. A plain cgroup as a
 * tenant is in test_tenants.c, users and namespaces are in test_users.c, and pids in test_peers.c.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/speaker.h"

enum { MAXIMUM = 4, USER = 12345 };

/* In cgroups that look like containers' the tests' programs are in the machine's user namespace, and there may be no guard. */
static const char namespaces_are_trusted[] = "[/**]\nAllowHostUserns=yes\n";
static const char *const maximum[] = { "--max-events=4", NULL };

static struct actor user_in(const struct fixture *fixture, const char *cgroup)
{
	return actor_new(fixture->socket, &(struct actor_as){ .cgroup = cgroup, .uid = USER });
}

/* As somebody else, unless that is 0. */
static void make_as(uid_t uid, const char *directory)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(setresuid(uid, uid, uid) == 0 && mkdir(directory, 0755) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "user %u could not make %s", uid, directory);
}

/* Asks from a cgroup in it, and one in that, and so on: the outermost is the tenant, and has its maximum. */
static void expect_nothing_gained_inside(const char *container, uid_t owner)
{
	enum { INSIDE = 6 };
	struct actor actors[INSIDE];
	struct seen_tenant seen;
	struct fixture fixture;
	char directory[256], event[16];
	unsigned taken = 0;
	size_t length = 0;

	fixture_start_with_policy(&fixture, namespaces_are_trusted, maximum);
	length = (size_t)snprintf(directory, sizeof(directory), "%s", container);
	for (unsigned i = 0; i < INSIDE; i++) {
		length += (size_t)snprintf(directory + length, sizeof(directory) - length, "/inside%u", i);
		snprintf(event, sizeof(event), "inside%u", i);
		make_as(owner, directory);
		actors[i] = user_in(&fixture, directory);
		taken += take(USER, actors[i].socket, event, 2, NULL);
	}
	ck_assert_uint_eq(taken, MAXIMUM);
	expect_only_tenant(&fixture, container, &seen);
	ck_assert_uint_eq(seen.events, MAXIMUM);
	ck_assert_uint_eq(seen.connections, INSIDE);
	for (unsigned i = 0; i < INSIDE; i++)
		actor_end(&actors[i]);
	fixture_stop(&fixture);
}

TEST(root_of_a_delegated_container_gains_no_events)
{
	const char *container;

	if (!need_cgroups("a container that makes cgroups of its own"))
		return;
	container = make_cgroup("machine.slice/marked.scope");
	if (delegate(container))
		expect_nothing_gained_inside(container, 0);
}

TEST(owner_of_a_container_gains_no_events)
{
	const char *container;

	if (!need_cgroups("a user who makes cgroups of his own"))
		return;
	container = make_cgroup("machine.slice/owned.scope");
	ck_assert_int_eq(chown(container, USER, USER), 0);
	expect_nothing_gained_inside(container, USER);
}

DAEMON_TEST(client_moved_before_accept_is_of_the_new_cgroup,
	    .needs_cgroups = "a process that is moved before it is accepted")
{
	struct seen_tenant seen;
	struct actor moved;
	const char *after = make_cgroup("after_accept");

	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	actor_connect(&moved, fixture->socket, &(struct actor_as){ .cgroup = make_cgroup("before_accept") });
	move_to(moved.pid, after);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	raw_say_hello(moved.socket);
	expect_kind(moved.socket, KIND_WELCOME);
	ck_assert_uint_eq(take(0, moved.socket, "moved", 1, NULL), 1);
	expect_only_tenant(fixture, after, &seen);
	ck_assert_uint_eq(seen.events, 1);
	actor_end(&moved);
}

/* Two seconds were promised; one more for a busy machine. */
enum { REFUND_MS = 3000 };

static void expect_refund(const struct fixture *fixture)
{
	uint64_t closed = clock_us() / 1000;

	ck_assert(eventually(status_number(fixture, "lingering") == 0));
	ck_assert_uint_le(clock_us() / 1000 - closed, REFUND_MS);
}

DAEMON_TEST(events_of_a_removed_cgroup_count_for_its_next, .options = { "--max-events=4" },
	    .needs_cgroups = "a cgroup that is removed and leaves something behind")
{
	struct seen_tenants seen;
	struct actor first, second;
	struct holder elsewhere;
	int stream = -1;
	const char *cgroup = make_cgroup("reborn");

	first = user_in(fixture, cgroup);
	ck_assert_uint_eq(take(USER, first.socket, "old", MAXIMUM - 1, &stream), MAXIMUM - 1);
	holder_start(&elsewhere, stream);
	close(stream);
	actor_end(&first);
	remove_cgroup(cgroup);
	ck_assert(eventually(status_number(fixture, "lingering") == MAXIMUM - 1));

	make_cgroup("reborn");
	second = user_in(fixture, cgroup);
	ck_assert_uint_eq(held_as(USER, second.socket), MAXIMUM - 1);
	ck_assert_uint_eq(take(USER, second.socket, "new", MAXIMUM, NULL), 1);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_eq(seen.tenant[0].lingering, MAXIMUM - 1);
	ck_assert(is_tenant(&seen.tenant[1], cgroup));

	holder_end(&elsewhere);
	expect_refund(fixture);
	ck_assert_uint_eq(held_as(USER, second.socket), 1);
	ck_assert_uint_eq(take(USER, second.socket, "newer", MAXIMUM, NULL), MAXIMUM - 1);
	actor_end(&second);
}

/* One life of a container: it takes what it can get, and dies. Its stream, if it got one, is with us, who survive. */
static unsigned live_and_crash(const struct fixture *fixture, unsigned life, int *ret_stream)
{
	const char *cgroup = make_cgroup("crashing");
	char event[32];
	unsigned taken;
	struct actor container = user_in(fixture, cgroup);

	snprintf(event, sizeof(event), "life%u", life);
	taken = take(USER, container.socket, event, MAXIMUM + 1, ret_stream);
	ck_assert_uint_eq(held_as(USER, container.socket), MAXIMUM);
	ck_assert_uint_eq(status_number(fixture, "charges"), MAXIMUM);
	actor_end(&container);
	remove_cgroup(cgroup);
	return taken;
}

DAEMON_TEST(container_in_a_crash_loop_keeps_to_its_maximum, .options = { "--max-events=4" },
	    .needs_cgroups = "a container in a crash loop")
{
	enum { LIVES = 100, SURVIVES = 20 };
	unsigned taken = 0;
	int stream = -1;

	for (unsigned life = 0; life < LIVES; life++) {
		/* What survives ends now and then; else nothing would ever be given again. */
		if (life % SURVIVES == 0) {
			stream = fd_close(stream);
			expect_refund(fixture);
		}
		taken += live_and_crash(fixture, life, &stream);
		ck_assert_uint_eq(taken, MAXIMUM * (1 + life / SURVIVES));
	}
	close(stream);
}

DAEMON_TEST(sessions_of_a_user_share_one_maximum, .options = { "--max-events=4" },
	    .needs_cgroups = "one session scope after another")
{
	enum { SESSIONS = 8 };
	struct actor sessions[SESSIONS];
	struct seen_tenant seen;
	char name[64];
	unsigned taken = 0;

	for (unsigned i = 0; i < SESSIONS; i++) {
		snprintf(name, sizeof(name), "user-%d.slice/session-%u.scope", USER, i + 1);
		sessions[i] = user_in(fixture, make_cgroup(name));
		snprintf(name, sizeof(name), "session%u", i + 1);
		taken += take(USER, sessions[i].socket, name, 1, NULL);
	}
	ck_assert_uint_eq(taken, MAXIMUM);
	snprintf(name, sizeof(name), "user-%d.slice", USER);
	expect_only_tenant(fixture, make_cgroup(name), &seen);
	ck_assert_uint_eq(seen.connections, SESSIONS);
	ck_assert_uint_eq(seen.events, MAXIMUM);
	for (unsigned i = 0; i < SESSIONS; i++)
		actor_end(&sessions[i]);
}

/* As systemd makes it for a user; all below the manager is his. */
struct rootless {
	const char *slice, *manager, *one, *another, *shell;
};

static const char *make_his(const char *below)
{
	char name[128];
	const char *made;

	snprintf(name, sizeof(name), "user-%d.slice/user@%d.service%s", USER, USER, below);
	made = make_cgroup(name);
	ck_assert_int_eq(chown(made, USER, USER), 0);
	return made;
}

static bool make_rootless(struct rootless *ret)
{
	ret->manager = make_his("");
	make_his("/user.slice");
	make_his("/app.slice");
	ret->one = make_his("/user.slice/libpod-one.scope");
	ret->another = make_his("/user.slice/libpod-another.scope");
	/* He may call his own as he likes, and mark it. */
	ret->shell = make_his("/app.slice/libpod-forged.scope");
	delegate(ret->shell);
	ret->slice = make_cgroup("user-12345.slice");
	return delegate(ret->manager);
}

TEST(rootless_containers_of_a_user_are_one_tenant)
{
	struct actor one, another;
	struct rootless rootless;
	struct seen_tenant seen;
	struct fixture fixture;

	if (!need_cgroups("rootless containers") || !make_rootless(&rootless))
		return;
	fixture_start_with_policy(&fixture, namespaces_are_trusted, maximum);
	one = user_in(&fixture, rootless.one);
	another = user_in(&fixture, rootless.another);
	ck_assert_uint_eq(take(USER, one.socket, "one", MAXIMUM - 1, NULL), MAXIMUM - 1);
	ck_assert_uint_eq(take(USER, another.socket, "another", MAXIMUM, NULL), 1);
	expect_only_tenant(&fixture, rootless.manager, &seen);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}

/* What 20-docker.conf says of them. */
static void policy_for_rootless(char *ret, size_t size)
{
	const char *top = cgroup_path(top_cgroup());

	snprintf(ret, size,
		 "%s"
		 "[%s/user-*.slice/user@*.service]\n"
		 "Tenant=no\n"
		 "[%s/user-*.slice/user@*.service/user.slice/libpod-*.scope]\n"
		 "Tenant=yes\n"
		 "MaxEvents=3\n",
		 namespaces_are_trusted, top, top);
}

TEST(rootless_containers_named_by_policy_are_tenants)
{
	struct actor one, another, shell;
	struct rootless rootless;
	struct seen_tenants seen;
	struct fixture fixture;
	char policy[512];

	if (!need_cgroups("rootless containers as tenants") || !make_rootless(&rootless))
		return;
	policy_for_rootless(policy, sizeof(policy));
	fixture_start_with_policy(&fixture, policy, NULL);
	one = user_in(&fixture, rootless.one);
	another = user_in(&fixture, rootless.another);
	shell = user_in(&fixture, rootless.shell);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 3);
	ck_assert_msg(is_tenant(&seen.tenant[0], rootless.one), "%s", seen.tenant[0].path);
	ck_assert_msg(is_tenant(&seen.tenant[1], rootless.another), "%s", seen.tenant[1].path);
	/* What else is his, and has nothing that the policy names, is the user's. */
	ck_assert_msg(is_tenant(&seen.tenant[2], rootless.slice), "%s", seen.tenant[2].path);
	ck_assert_uint_eq(take(USER, one.socket, "one", 4, NULL), 3);
	ck_assert_uint_eq(take(USER, another.socket, "another", 4, NULL), 3);
	ck_assert_uint_eq(take(USER, shell.socket, "shell", 4, NULL), 4);
	actor_end(&shell);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}

int main(void)
{
	return run_tests_in_cgroups();
}
