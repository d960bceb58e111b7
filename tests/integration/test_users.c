/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Users and namespaces: connections that are handed on, set-user-ID programs, root and its containers. */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"
#include "tests/integration/speaker.h"

enum { MAXIMUM = 4, USER = 12345, OTHER_USER = 12346 };

#define UNGUARDED .options = { "--guard=off" }

DAEMON_TEST(connection_handed_on_is_charged_to_its_maker, .options = { "--max-events=4" },
	    .needs_cgroups = "a connection that is handed to another tenant")
{
	const char *makers = make_cgroup("makers"), *takers = make_cgroup("takers");
	struct seen_tenants seen;
	struct actor maker;
	_cleanup_(actor_end) struct actor taker = { .leash = -1 };

	actor_connect(&maker, fixture->socket, &(struct actor_as){ .cgroup = makers });
	taker = actor_in(fixture, takers, 0);
	/* The maker ends before it has sent anything. */
	await_status(fixture, "connections=2");
	actor_leave(&maker);
	raw_say_hello(maker.socket);
	expect_kind(maker.socket, KIND_WELCOME);
	ck_assert_uint_eq(take_events(maker.socket, "handed", MAXIMUM + 1, NULL), MAXIMUM);
	ck_assert_uint_eq(take_events(taker.socket, "own", 1, NULL), 1);
	seen = expect_tenants(fixture, makers, takers);
	ck_assert_uint_eq(seen.tenant[0].events, MAXIMUM);
	ck_assert_uint_eq(seen.tenant[1].events, 1);
	actor_end(&maker);
}

DAEMON_TEST(connection_handed_to_another_user_is_dropped, UNGUARDED,
	    .needs_root = "a connection that is handed to another user")
{
	static const struct {
		uid_t maker, taker;
	} handed[] = { { USER, OTHER_USER }, { USER, 0 }, { 0, USER } };

	for (size_t i = 0; i < ARRAY_SIZE(handed); i++) {
		_cleanup_(actor_end) struct actor maker = actor_in(fixture, NULL, handed[i].maker);

		ck_assert_uint_eq(as_user(handed[i].maker, take_events(maker.socket, "held", 2, NULL)), 2);
		expect_wrong_user(fixture, handed[i].taker, maker.socket, KIND_QUERY);
		expect_status(fixture, "leases=0");
	}
}

DAEMON_TEST(hello_of_another_user_is_refused, .needs_root = "a hello of another user")
{
	struct actor maker;

	actor_connect(&maker, fixture->socket, &(struct actor_as){ .uid = USER });
	expect_wrong_user(fixture, OTHER_USER, maker.socket, KIND_HELLO);
	actor_end(&maker);
}

/* A set-user-ID program: a copy of this one, which goes on in main(). */
static char set_user_id_program[128], set_user_id_socket[96];

static void become_set_user_id(void)
{
	execl(set_user_id_program, set_user_id_program, "--actor", set_user_id_socket, (char *)NULL);
}

static bool may_set_user_id(const struct fixture *fixture)
{
	struct statvfs status;

	ck_assert_int_eq(statvfs(fixture->directory, &status), 0);
	return !(status.f_flag & ST_NOSUID) ||
	       not_possible("a set-user-ID program, on a file system that is mounted nosuid");
}

/* Runs as OTHER_USER, for USER. */
static struct actor start_set_user_id(const struct fixture *fixture)
{
	struct actor actor;

	snprintf(set_user_id_program, sizeof(set_user_id_program), "%s/program", fixture->directory);
	string_copy(set_user_id_socket, sizeof(set_user_id_socket), fixture->socket);
	copy_built("tests/test_users", set_user_id_program);
	ck_assert_int_eq(chown(set_user_id_program, OTHER_USER, OTHER_USER), 0);
	ck_assert_int_eq(chmod(set_user_id_program, 04755), 0);
	actor = actor_new(fixture->socket, &(struct actor_as){ .uid = USER, .enter = become_set_user_id });
	ck_assert_int_eq(unlink(set_user_id_program), 0);
	return actor;
}

DAEMON_TEST(set_user_id_program_may_use_both_its_users, .needs_root = "a set-user-ID program")
{
	struct actor program;

	if (!may_set_user_id(fixture))
		return;
	program = start_set_user_id(fixture);
	/* A child has the real user; a program that gives up that user has the other one. */
	ck_assert_uint_eq(as_user(USER, raw_register(program.socket, "real", NULL, NULL)), 0);
	ck_assert_uint_eq(as_user(OTHER_USER, raw_register(program.socket, "effective", NULL, NULL)), 0);
	expect_status(fixture, "leases=2");
	expect_wrong_user(fixture, 0, program.socket, KIND_QUERY);
	actor_end(&program);
}

static bool write_once(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	fd_close(fd);
	return written;
}

enum { NO_NAMESPACES = 77 };

/* The process inside is root there and has pid 1; the one outside ends with it. */
static void enter_namespaces(void)
{
	char map[32];
	int status;
	pid_t pid;

	/* Otherwise the files in /proc/self belong to root, since the process has changed its user. */
	prctl(PR_SET_DUMPABLE, 1);
	snprintf(map, sizeof(map), "0 %d 1\n", USER);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_NEWNET | CLONE_NEWUTS) < 0 ||
	    !write_once("/proc/self/setgroups", "deny") || !write_once("/proc/self/uid_map", map))
		_exit(NO_NAMESPACES);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getpid() != 1 || geteuid() != 0)
			_exit(EXIT_FAILURE);
		return;
	}
	close(3);
	waitpid(pid, &status, 0);
	_exit(EXIT_SUCCESS);
}

static bool has_namespaces(void)
{
	pid_t pid = start_process();
	int status;

	if (pid == 0) {
		if (setresuid(USER, USER, USER) < 0)
			_exit(EXIT_FAILURE);
		enter_namespaces();
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status == 0 || not_possible("a client in namespaces of its own: a user may not make them");
}

/* The root of those namespaces has no rights outside: otherwise it would be refused here. */
DAEMON_TEST(client_in_namespaces_has_its_outside_identity, UNGUARDED,
	    .needs_cgroups = "a client in namespaces of its own")
{
	const char *container = make_cgroup("machine.slice/namespaced.scope");
	struct seen_holder holder;
	struct actor client;

	if (!has_namespaces() || !delegate(container))
		return;
	client = actor_new(
		fixture->socket,
		&(struct actor_as){ .cgroup = container, .comm = "inside", .uid = USER, .enter = enter_namespaces });
	ck_assert_uint_eq(as_user(USER, raw_register(client.socket, "from_inside", NULL, NULL)), 0);
	expect_tenants(fixture, container);
	holder = holder_of(fixture, "from_inside");
	ck_assert_uint_eq(holder.uid, USER);
	ck_assert_str_eq(holder.comm, "inside");
	ck_assert_str_eq(holder.tenant, cgroup_path(container));
	/* Neither its pid inside, which is 1, nor that of the process outside. */
	ck_assert_uint_ne(holder.pid, 1);
	ck_assert_uint_ne(holder.pid, (uint64_t)client.pid);
	ck_assert_uint_eq(proc_status((pid_t)holder.pid, "PPid:", 10), (uint64_t)client.pid);
	expect_wrong_user(fixture, 0, client.socket, KIND_QUERY);
	actor_end(&client);
}

static void leave_proc(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/proc", "tmpfs", 0, NULL) < 0 || access("/proc/self", F_OK) == 0)
		_exit(EXIT_FAILURE);
}

DAEMON_TEST(container_without_proc_is_served, .needs_cgroups = "a container without /proc")
{
	const char *container = make_cgroup("no_proc");
	_cleanup_(actor_end) struct actor client =
		actor_new(fixture->socket, &(struct actor_as){ .cgroup = container, .enter = leave_proc });

	expect_granted(client.socket, "no_proc");
	expect_tenants(fixture, container);
}

/* --- AllowHostRoot, AllowHostUserns: containers that the machine's root, or its user namespace, reaches into --- */

/* Like a set-user-ID program that root has started: it connects as another user, and can become root again. */
static void keep_roots_real_uid(void)
{
	if (setreuid(0, USER) < 0)
		_exit(EXIT_FAILURE);
}

/* The refusal names that key. */
static void expect_welcome(const struct fixture *fixture, const struct actor_as *as, const char *key, bool welcome)
{
	struct actor_as greeting = *as;
	struct actor actor;

	greeting.greets = true;
	actor_connect(&actor, fixture->socket, &greeting);
	if (welcome) {
		expect_kind(actor.socket, KIND_WELCOME);
	} else {
		expect_cut_with(actor.socket, REFUSAL_NOT_PERMITTED, key);
		ck_assert(log_has(fixture, key));
	}
	actor_end(&actor);
}

static void expect_root(const struct fixture *fixture, const char *cgroup, bool welcome)
{
	static const char key[] = "AllowHostRoot=yes";

	expect_welcome(fixture, &(struct actor_as){ .cgroup = cgroup }, key, welcome);
	expect_welcome(fixture, &(struct actor_as){ .cgroup = cgroup, .enter = keep_roots_real_uid }, key, welcome);
}

static bool make_containers(const char **ret_container, const char **ret_trusted)
{
	*ret_container = make_cgroup("machine.slice/container.scope");
	*ret_trusted = make_cgroup("machine.slice/trusted.scope");
	return delegate(*ret_container) && delegate(*ret_trusted);
}

DAEMON_TEST(host_root_in_a_container_is_refused_unguarded, UNGUARDED,
	    .policy = "[/userevd-test-*/machine.slice/trusted.scope]\nAllowHostRoot=yes\n",
	    .needs_cgroups = "root of the machine in a container")
{
	const char *container, *trusted;

	if (!make_containers(&container, &trusted))
		return;
	/* Without the kernel's files root can't misuse a data file. */
	expect_root(fixture, container, keeps_records_itself(fixture));
	expect_root(fixture, trusted, true);
	expect_root(fixture, make_cgroup("no.slice/container.service"), true);
}

DAEMON_TEST(host_root_in_a_container_is_served_guarded, .needs_cgroups = "root of the machine in a container")
{
	const char *container, *trusted;

	if (make_containers(&container, &trusted))
		expect_root(fixture, container, keeps_records_itself(fixture) || fixture->guarded);
}

/* The container's root is root of the machine, and can get the file from the client. */
DAEMON_TEST(host_user_namespace_is_refused_unguarded, UNGUARDED,
	    .policy = "[/userevd-test-*/machine.slice/trusted.scope]\nAllowHostUserns=yes\n",
	    .needs_cgroups = "a container in the machine's user namespace")
{
	static const char key[] = "AllowHostUserns=yes";
	const char *container, *trusted;

	if (!make_containers(&container, &trusted))
		return;
	expect_welcome(fixture, &(struct actor_as){ .cgroup = container, .uid = USER }, key,
		       keeps_records_itself(fixture));
	expect_welcome(fixture, &(struct actor_as){ .cgroup = trusted, .uid = USER }, key, true);
	if (has_namespaces())
		expect_welcome(fixture,
			       &(struct actor_as){ .cgroup = container, .uid = USER, .enter = enter_namespaces }, key,
			       true);
}

int main(int argc, char **argv)
{
	/* The set-user-ID program that one of the tests runs. */
	if (argc == 3 && streq(argv[1], "--actor")) {
		become_child();
		actor_act(argv[2], true);
	}
	return run_tests_in_cgroups();
}
