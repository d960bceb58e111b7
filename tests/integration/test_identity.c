/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The tenant of a connection, and the charges of its requests: with real cgroups, as containers have them. A plain cgroup as a
 * tenant is in test_tenants.c, users and namespaces are in test_users.c, and pids in test_peers.c.
 */

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "daemon/limits.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/speaker.h"

enum { MAXIMUM = 4, USER = 12345 };

/* The tests' programs are in the machine's user namespace, which containers without a guard may not be. */
#define NAMESPACES_ARE_TRUSTED "[/**]\nAllowHostUserns=yes\n"

/* How many of n events the user is granted. */
static unsigned user_takes(const struct actor *actor, const char *name, unsigned n)
{
	return as_user(USER, take_events(actor->socket, name, n, NULL));
}

static void make_as(uid_t uid, const char *directory)
{
	pid_t pid = start_process();

	if (pid == 0)
		_exit(setresuid(uid, uid, uid) == 0 && mkdir(directory, 0755) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	await_success(pid);
}

/* Clients in cgroups of the container's, each inside the one before: the container is the tenant, and has its maximum. */
static void expect_nothing_gained_inside(const struct fixture *fixture, const char *container, uid_t owner)
{
	enum { INSIDE = 6 };
	struct actor actors[INSIDE];
	struct seen_tenant seen;
	char directory[256];
	unsigned taken = 0;
	size_t length = 0;

	length = (size_t)snprintf(directory, sizeof(directory), "%s", container);
	for (unsigned i = 0; i < INSIDE; i++) {
		length += (size_t)snprintf(directory + length, sizeof(directory) - length, "/inside%u", i);
		make_as(owner, directory);
		actors[i] = actor_in(fixture, directory, USER);
		taken += user_takes(&actors[i], strrchr(directory, '/') + 1, 2);
	}
	ck_assert_uint_eq(taken, MAXIMUM);
	seen = expect_tenants(fixture, container).tenant[0];
	ck_assert_uint_eq(seen.events, MAXIMUM);
	ck_assert_uint_eq(seen.connections, INSIDE);
	for (unsigned i = 0; i < INSIDE; i++)
		actor_end(&actors[i]);
	await_status(fixture, "tenants=0");
}

DAEMON_TEST(cgroups_made_inside_a_container_gain_it_nothing, .policy = NAMESPACES_ARE_TRUSTED,
	    .options = { "--max-events=4" }, .needs_cgroups = "a container that makes cgroups of its own")
{
	static const struct {
		const char *container;
		uid_t owner;
		bool delegated;
	} cases[] = {
		{ "plain", 0, false },
		{ "machine.slice/marked.scope", 0, true },
		{ "machine.slice/owned.scope", USER, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *container = make_cgroup(cases[i].container);

		ck_assert_int_eq(chown(container, cases[i].owner, cases[i].owner), 0);
		if (!cases[i].delegated || delegate(container))
			expect_nothing_gained_inside(fixture, container, cases[i].owner);
	}
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
	ck_assert_uint_eq(take_events(moved.socket, "moved", 1, NULL), 1);
	seen = expect_tenants(fixture, after).tenant[0];
	ck_assert_uint_eq(seen.events, 1);
	actor_end(&moved);
}

DAEMON_TEST(events_of_a_removed_cgroup_count_for_its_next, .options = { "--max-events=4" },
	    .needs_cgroups = "a cgroup that is removed and leaves something behind")
{
	struct seen_tenants seen;
	struct actor first, second;
	struct holder elsewhere;
	int stream = -1;
	const char *cgroup = make_cgroup("reborn");

	first = actor_in(fixture, cgroup, USER);
	ck_assert_uint_eq(as_user(USER, take_events(first.socket, "old", MAXIMUM - 1, &stream)), MAXIMUM - 1);
	leave_copy(&elsewhere, fd_steal(&first.socket), stream);
	actor_end(&first);
	remove_cgroup(cgroup);
	await_status(fixture, "lingering=%u", MAXIMUM - 1);

	make_cgroup("reborn");
	second = actor_in(fixture, cgroup, USER);
	ck_assert_uint_eq(as_user(USER, raw_query(second.socket)).events, MAXIMUM - 1);
	ck_assert_uint_eq(user_takes(&second, "new", MAXIMUM), 1);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_ne(seen.tenant[0].cgroup_id, seen.tenant[1].cgroup_id);
	ck_assert_uint_eq(seen.tenant[0].lingering, MAXIMUM - 1);
	ck_assert(is_tenant(&seen.tenant[1], cgroup));

	holder_end(&elsewhere);
	await_refund(fixture, "lingering=0");
	ck_assert_uint_eq(as_user(USER, raw_query(second.socket)).events, 1);
	ck_assert_uint_eq(user_takes(&second, "newer", MAXIMUM), MAXIMUM - 1);
	actor_end(&second);
}

/* A container takes as many events as it can get, and ends. If it got a stream, the test keeps that. */
static unsigned live_and_crash(const struct fixture *fixture, unsigned life, int *ret_stream)
{
	const char *cgroup = make_cgroup("crashing");
	char event[32];
	unsigned taken;
	struct actor container = actor_in(fixture, cgroup, USER);

	snprintf(event, sizeof(event), "life%u", life);
	taken = as_user(USER, take_events(container.socket, event, MAXIMUM + 1, ret_stream));
	ck_assert_uint_eq(as_user(USER, raw_query(container.socket)).events, MAXIMUM);
	expect_status(fixture, "charges=%u", MAXIMUM);
	actor_end(&container);
	remove_cgroup(cgroup);
	return taken;
}

DAEMON_TEST(container_in_a_crash_loop_keeps_to_its_maximum, .options = { "--max-events=4" },
	    .needs_cgroups = "a container in a crash loop")
{
	enum { LIVES = 60, SURVIVES = 20 };
	unsigned taken = 0;
	_cleanup_(fd_closep) int stream = -1;

	for (unsigned life = 0; life < LIVES; life++) {
		/* Closed now and then; otherwise no event would ever be free again. */
		if (life % SURVIVES == 0) {
			stream = fd_close(stream);
			await_refund(fixture, "lingering=0");
		}
		taken += live_and_crash(fixture, life, &stream);
		ck_assert_uint_eq(taken, MAXIMUM * (1 + life / SURVIVES));
	}
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
		sessions[i] = actor_in(fixture, make_cgroup(name), USER);
		snprintf(name, sizeof(name), "session%u", i + 1);
		taken += user_takes(&sessions[i], name, 1);
	}
	ck_assert_uint_eq(taken, MAXIMUM);
	seen = expect_tenants(fixture, make_cgroup("user-12345.slice")).tenant[0];
	ck_assert_uint_eq(seen.connections, SESSIONS);
	ck_assert_uint_eq(seen.events, MAXIMUM);
	for (unsigned i = 0; i < SESSIONS; i++)
		actor_end(&sessions[i]);
}

/* As systemd makes it for a user; everything below the manager is the user's own. */
struct rootless {
	const char *slice, *manager, *one, *another, *shell;
};

static const char *make_users_own(const char *below)
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
	ret->manager = make_users_own("");
	make_users_own("/user.slice");
	make_users_own("/app.slice");
	ret->one = make_users_own("/user.slice/libpod-one.scope");
	ret->another = make_users_own("/user.slice/libpod-another.scope");
	/* The user may give a cgroup any name, and mark it. */
	ret->shell = make_users_own("/app.slice/libpod-forged.scope");
	delegate(ret->shell);
	ret->slice = make_cgroup("user-12345.slice");
	return delegate(ret->manager);
}

DAEMON_TEST(rootless_containers_of_a_user_are_one_tenant, .policy = NAMESPACES_ARE_TRUSTED,
	    .options = { "--max-events=4" }, .needs_cgroups = "rootless containers")
{
	struct actor one, another;
	struct rootless rootless;

	if (!make_rootless(&rootless))
		return;
	one = actor_in(fixture, rootless.one, USER);
	another = actor_in(fixture, rootless.another, USER);
	ck_assert_uint_eq(user_takes(&one, "one", MAXIMUM - 1), MAXIMUM - 1);
	ck_assert_uint_eq(user_takes(&another, "another", MAXIMUM), 1);
	expect_tenants(fixture, rootless.manager);
	actor_end(&another);
	actor_end(&one);
}

/* The policy is that of 20-containers.conf. */
DAEMON_TEST(rootless_containers_named_by_policy_are_tenants,
	    .policy = NAMESPACES_ARE_TRUSTED "[/userevd-test-*/user-*.slice/user@*.service]\n"
					     "Tenant=no\n"
					     "[/userevd-test-*/user-*.slice/user@*.service/user.slice/libpod-*.scope]\n"
					     "Tenant=yes\n"
					     "MaxEvents=3\n",
	    .needs_cgroups = "rootless containers as tenants")
{
	struct actor one, another, shell;
	struct rootless rootless;

	if (!make_rootless(&rootless))
		return;
	one = actor_in(fixture, rootless.one, USER);
	another = actor_in(fixture, rootless.another, USER);
	shell = actor_in(fixture, rootless.shell, USER);
	/* A cgroup of the user's that the policy doesn't name belongs to the user's slice. */
	expect_tenants(fixture, rootless.one, rootless.another, rootless.slice);
	ck_assert_uint_eq(user_takes(&one, "one", 4), 3);
	ck_assert_uint_eq(user_takes(&another, "another", 4), 3);
	ck_assert_uint_eq(user_takes(&shell, "shell", 4), 4);
	actor_end(&shell);
	actor_end(&another);
	actor_end(&one);
}

/* A client that connects to this cgroup now is of that tenant. */
static void expect_new_client_of(const struct fixture *fixture, const char *cgroup, const char *tenant)
{
	_cleanup_(actor_end) struct actor actor = actor_in(fixture, cgroup, USER);
	struct seen_tenants seen;
	bool found = false;

	see_tenants(fixture, &seen);
	for (size_t i = 0; i < seen.n; i++)
		found |= is_tenant(&seen.tenant[i], tenant) &&
			 seen.tenant[i].connections == (i == 0 ? 2 : 1); /* the first tenant has a client that stays */
	ck_assert_msg(found, "it is not of %s", tenant);
}

/* Connections in between do not delay that the change is noticed. */
static void expect_noticed(const struct fixture *fixture, const char *cgroup, const char *tenant)
{
	for (unsigned i = 0; i < 4; i++) {
		struct actor actor;

		usleep((useconds_t)(BORDER_INTERVAL * 1e6 / 4));
		if (i == 3)
			break;
		actor = actor_in(fixture, cgroup, USER);
		actor_end(&actor);
	}
	expect_new_client_of(fixture, cgroup, tenant);
}

DAEMON_TEST(changed_delegation_counts_within_a_second, .policy = NAMESPACES_ARE_TRUSTED, .needs_cgroups = "delegation")
{
	/* From the third on the inner mark was set by the owner of the outer cgroup. The last is above the second level. */
	const char *tenants[] = { make_cgroup("slice"), make_cgroup("slice/pod/container/app"),
				  make_cgroup("slice/pod/container"), make_cgroup("slice/pod"), top_cgroup() };
	const char *leaf = tenants[1];
	_cleanup_(actor_end) struct actor stays = actor_in(fixture, leaf, USER);

	for (size_t i = 1; i < ARRAY_SIZE(tenants); i++) {
		expect_new_client_of(fixture, leaf, tenants[i - 1]);
		if (!delegate(tenants[i]))
			break;
		expect_noticed(fixture, leaf, tenants[i]);
	}
	for (size_t i = ARRAY_SIZE(tenants) - 1; i > 0 && removexattr(tenants[i], "user.delegate") == 0; i--)
		expect_noticed(fixture, leaf, tenants[i - 1]);
}

DAEMON_TEST(changed_owner_counts_within_a_second, .policy = NAMESPACES_ARE_TRUSTED, .needs_cgroups = "delegation")
{
	const char *slice = make_cgroup("slice"), *pod = make_cgroup("slice/pod"), *leaf = make_cgroup("slice/pod/app");
	_cleanup_(actor_end) struct actor stays = actor_in(fixture, leaf, USER);

	expect_new_client_of(fixture, leaf, slice);
	ck_assert_int_eq(chown(pod, USER, USER), 0);
	expect_noticed(fixture, leaf, pod);
	ck_assert_int_eq(chown(pod, 0, 0), 0);
	expect_noticed(fixture, leaf, slice);
}

int main(void)
{
	return run_tests_in_cgroups();
}
