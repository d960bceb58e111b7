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

#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/speaker.h"

enum { MAXIMUM = 4, USER = 12345, OTHER_USER = 12346 };

static const char *const unguarded[] = { "--guard=off", NULL };

DAEMON_TEST(connection_handed_on_is_charged_to_its_maker, .options = { "--max-events=4" },
	    .needs_cgroups = "a connection that is handed to another tenant")
{
	struct seen_tenants seen;
	struct actor maker, taker;
	const char *makers = make_cgroup("makers");
	const char *takers = make_cgroup("takers");

	actor_connect(&maker, fixture->socket, &(struct actor_as){ .cgroup = makers });
	taker = actor_new(fixture->socket, &(struct actor_as){ .cgroup = takers });
	/* It is not even there any more, and never said a word. */
	ck_assert(eventually(status_number(fixture, "connections") == 2));
	actor_leave(&maker);
	raw_say_hello(maker.socket);
	expect_kind(maker.socket, KIND_WELCOME);
	ck_assert_uint_eq(take(0, maker.socket, "handed", MAXIMUM + 1, NULL), MAXIMUM);
	ck_assert_uint_eq(take(0, taker.socket, "own", 1, NULL), 1);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert(is_tenant(&seen.tenant[0], makers));
	ck_assert_uint_eq(seen.tenant[0].events, MAXIMUM);
	ck_assert(is_tenant(&seen.tenant[1], takers));
	ck_assert_uint_eq(seen.tenant[1].events, 1);
	actor_end(&taker);
	actor_end(&maker);
}

TEST(connection_handed_to_another_user_is_dropped)
{
	static const struct {
		uid_t maker, taker;
	} handed[] = { { USER, OTHER_USER }, { USER, 0 }, { 0, USER } };

	if (!need_root("a connection that is handed to another user"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(handed); i++) {
		struct fixture fixture;
		struct actor maker;

		fixture_start(&fixture, unguarded);
		maker = actor_new(fixture.socket, &(struct actor_as){ .uid = handed[i].maker });
		ck_assert_uint_eq(take(handed[i].maker, maker.socket, "held", 2, NULL), 2);
		expect_wrong_user(&fixture, handed[i].taker, maker.socket, KIND_QUERY);
		ck_assert_uint_eq(status_number(&fixture, "leases"), 0);
		actor_end(&maker);
		fixture_stop(&fixture);
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

static void copy_program(const char *to)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	static char bytes[65536];
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		ck_assert_int_eq(write(fd, bytes, (size_t)n), n);
	ck_assert_int_eq(fchown(fd, OTHER_USER, OTHER_USER), 0);
	ck_assert_int_eq(fchmod(fd, 04755), 0);
	close(fd);
	close(from);
}

static bool may_set_user_id(const struct fixture *fixture)
{
	struct statvfs status;

	ck_assert_int_eq(statvfs(fixture->directory, &status), 0);
	if (status.f_flag & ST_NOSUID)
		printf("not possible here: a set-user-ID program: %s is mounted nosuid\n", fixture->directory);
	return !(status.f_flag & ST_NOSUID);
}

/* Runs as OTHER_USER, for USER. */
static void start_set_user_id(struct actor *actor, const struct fixture *fixture)
{
	snprintf(set_user_id_program, sizeof(set_user_id_program), "%s/program", fixture->directory);
	string_copy(set_user_id_socket, sizeof(set_user_id_socket), fixture->socket);
	copy_program(set_user_id_program);
	actor_start(actor, fixture->socket, &(struct actor_as){ .uid = USER, .enter = become_set_user_id });
	ck_assert_int_eq(unlink(set_user_id_program), 0);
}

DAEMON_TEST(set_user_id_program_may_use_both_its_users, .needs_root = "a set-user-ID program")
{
	struct actor program;

	if (may_set_user_id(fixture)) {
		start_set_user_id(&program, fixture);
		/* Its forks do, and one that has become what it runs as for good. */
		ck_assert_uint_eq(register_as(USER, program.socket, "real"), 0);
		ck_assert_uint_eq(register_as(OTHER_USER, program.socket, "effective"), 0);
		ck_assert_uint_eq(status_number(fixture, "leases"), 2);
		expect_wrong_user(fixture, 0, program.socket, KIND_QUERY);
		actor_end(&program);
	}
}

static bool write_once(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	fd_close(fd);
	return written;
}

enum { NO_NAMESPACES = 77 };

/* What is left of us outside ends with who goes inside, as its root and first process. */
static void enter_namespaces(void)
{
	char map[32];
	int status;
	pid_t pid;

	/* Else what is in /proc/self is root's, since we have changed our user. */
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
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (setresuid(USER, USER, USER) < 0)
			_exit(EXIT_FAILURE);
		enter_namespaces();
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (status != 0)
		printf("not possible here: a client in namespaces of its own: a user may not make them\n");
	return status == 0;
}

TEST(client_in_namespaces_has_its_outside_identity)
{
	struct seen_tenant tenant;
	struct seen_holder holder;
	struct fixture fixture;
	const char *container;
	struct actor client;

	if (!need_cgroups("a client in namespaces of its own") || !has_namespaces())
		return;
	container = make_cgroup("machine.slice/namespaced.scope");
	if (!delegate(container))
		return;
	/* Its root is nobody special: else it would get nothing here. */
	fixture_start(&fixture, unguarded);
	actor_start(
		&client, fixture.socket,
		&(struct actor_as){ .cgroup = container, .comm = "inside", .uid = USER, .enter = enter_namespaces });
	ck_assert_uint_eq(register_as(USER, client.socket, "from_inside"), 0);
	expect_only_tenant(&fixture, container, &tenant);
	holder = holder_of(&fixture, "from_inside");
	ck_assert_uint_eq(holder.uid, USER);
	ck_assert_str_eq(holder.comm, "inside");
	ck_assert_str_eq(holder.tenant, cgroup_path(container));
	/* Not 1, as it is to itself, and not who went there. */
	ck_assert_uint_ne(holder.pid, 1);
	ck_assert_uint_ne(holder.pid, (uint64_t)client.pid);
	ck_assert_uint_eq(proc_status((pid_t)holder.pid, "PPid:", 10), (uint64_t)client.pid);
	expect_wrong_user(&fixture, 0, client.socket, KIND_QUERY);
	actor_end(&client);
	fixture_stop(&fixture);
}

static void leave_proc(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/proc", "tmpfs", 0, NULL) < 0 || access("/proc/self", F_OK) == 0)
		_exit(EXIT_FAILURE);
}

DAEMON_TEST(container_without_proc_is_served, .needs_cgroups = "a container without /proc")
{
	struct seen_tenant tenant;
	const char *container = make_cgroup("no_proc");
	_cleanup_(actor_end) struct actor client =
		actor_new(fixture->socket, &(struct actor_as){ .cgroup = container, .enter = leave_proc });

	ck_assert_uint_eq(register_as(0, client.socket, "no_proc"), 0);
	expect_only_tenant(fixture, container, &tenant);
}

/* A set-user-ID program that root has started: it connects as another user, and can be root again whenever it likes. */
static void keep_roots_real_uid(void)
{
	if (setreuid(0, USER) < 0)
		_exit(EXIT_FAILURE);
}

static void expect_root(const struct fixture *fixture, const char *cgroup, bool welcome)
{
	const struct actor_as roots[] = {
		{ .cgroup = cgroup, .greets = true },
		{ .cgroup = cgroup, .greets = true, .enter = keep_roots_real_uid },
	};
	struct actor root;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		actor_connect(&root, fixture->socket, &roots[i]);
		if (welcome) {
			expect_kind(root.socket, KIND_WELCOME);
			ck_assert_uint_eq(take(0, root.socket, "roots", 1, NULL), 1);
		} else {
			expect_cut_with(root.socket, REFUSAL_NOT_PERMITTED, "AllowHostRoot=yes");
			ck_assert(log_has(fixture, "AllowHostRoot=yes"));
		}
		actor_end(&root);
	}
}

TEST(host_root_in_a_container_is_refused_unguarded)
{
	const char *container, *trusted;
	struct fixture fixture;
	char policy[256];

	if (!need_cgroups("root of the machine in a container"))
		return;
	container = make_cgroup("machine.slice/roots.scope");
	trusted = make_cgroup("machine.slice/trusted.scope");
	if (!delegate(container) || !delegate(trusted))
		return;
	snprintf(policy, sizeof(policy), "[%s]\nAllowHostRoot=yes\n", cgroup_path(trusted));
	fixture_start_with_policy(&fixture, policy, unguarded);
	/* Without the kernel's files there is nothing that root could do with what it gets. */
	expect_root(&fixture, container, keeps_records_itself(&fixture));
	expect_root(&fixture, trusted, true);
	expect_root(&fixture, make_cgroup("no.slice/container.service"), true);
	fixture_stop(&fixture);

	fixture_start(&fixture, NULL);
	expect_root(&fixture, container, keeps_records_itself(&fixture) || fixture.guarded);
	fixture_stop(&fixture);
}

static void expect_user(const struct fixture *fixture, const struct actor_as *user, bool welcome)
{
	struct actor actor;

	actor_connect(&actor, fixture->socket, user);
	if (welcome)
		expect_kind(actor.socket, KIND_WELCOME);
	else
		expect_cut_with(actor.socket, REFUSAL_NOT_PERMITTED, "AllowHostUserns=yes");
	actor_end(&actor);
}

/* Its root, which is root of the machine, can get the file from it. */
TEST(host_user_namespace_is_refused_unguarded)
{
	const char *container, *trusted;
	struct fixture fixture;
	char policy[256];

	if (!need_cgroups("a container in the machine's user namespace"))
		return;
	container = make_cgroup("machine.slice/shared_namespace.scope");
	trusted = make_cgroup("machine.slice/trusted.scope");
	if (!delegate(container) || !delegate(trusted))
		return;
	snprintf(policy, sizeof(policy), "[%s]\nAllowHostUserns=yes\n", cgroup_path(trusted));
	fixture_start_with_policy(&fixture, policy, unguarded);
	expect_user(&fixture, &(struct actor_as){ .cgroup = container, .uid = USER, .greets = true },
		    keeps_records_itself(&fixture));
	expect_user(&fixture, &(struct actor_as){ .cgroup = trusted, .uid = USER, .greets = true }, true);
	if (has_namespaces())
		expect_user(&fixture,
			    &(struct actor_as){
				    .cgroup = container, .uid = USER, .greets = true, .enter = enter_namespaces },
			    true);
	fixture_stop(&fixture);
}

int main(int argc, char **argv)
{
	/* The set-user-ID program that one of the tests runs. */
	if (argc == 3 && streq(argv[1], "--actor"))
		actor_act(argv[2], NULL);
	return run_tests_in_cgroups();
}
