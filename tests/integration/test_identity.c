/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Who is asking, and who pays for it: with real cgroups, users, namespaces and pids, as containers have them. What a plain
 * cgroup is to a tenant is in test_tenants.c.
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <linux/sched.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

enum { MAXIMUM = 4, USER = 12345, OTHER_USER = 12346 };

static const char *const maximum[] = { "--max-events=4", NULL };
/* In cgroups that look like containers' the tests' programs are in the machine's user namespace, and there may be no guard. */
static const char namespaces_are_trusted[] = "[/**]\nAllowHostUserns=yes\n";
/* So that its limits may be changed by somebody without CAP_SYS_RESOURCE. */
static const char *const stays_root[] = { "--user=root", NULL };
static const char *const unguarded[] = { "--guard=off", NULL };

static bool need_root(const char *what)
{
	if (geteuid() != 0)
		printf("not possible here without root: %s\n", what);
	return geteuid() == 0;
}

/* What is said on a connection has the real uid of who says it. */
static void speak_as(uid_t uid)
{
	ck_assert_int_eq(setreuid(uid, (uid_t)-1), 0);
}

static uint32_t register_as(uid_t uid, int socket, const char *description)
{
	uint32_t refusal;

	speak_as(uid);
	refusal = raw_register(socket, description, NULL, NULL);
	speak_as(geteuid());
	return refusal;
}

/* How many of n new events it is given; the stream, if one comes, goes to `ret_stream` unless that is NULL. */
static unsigned take(uid_t uid, int socket, const char *name, unsigned n, int *ret_stream)
{
	unsigned taken = 0;
	char event[64];

	speak_as(uid);
	for (unsigned i = 0; i < n; i++) {
		uint32_t refusal;
		int stream = -1;

		snprintf(event, sizeof(event), "%s_%u", name, i);
		refusal = raw_register(socket, event, NULL, &stream);
		ck_assert(refusal == 0 || refusal == REFUSAL_QUOTA_EXCEEDED);
		taken += refusal == 0;
		if (ret_stream && stream >= 0)
			*ret_stream = stream;
		else
			fd_close(stream);
	}
	speak_as(geteuid());
	return taken;
}

static uint64_t held_as(uid_t uid, int socket)
{
	struct wire_account account;

	speak_as(uid);
	account = raw_query(socket);
	speak_as(geteuid());
	return account.events;
}

static void user_in(struct actor *actor, const struct fixture *fixture, const char *cgroup)
{
	actor_start(actor, fixture->socket, &(struct actor_as){ .cgroup = cgroup, .uid = USER });
}

/* Cgroups. */

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
		user_in(&actors[i], &fixture, directory);
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

TEST(root_of_a_container_makes_no_tenants_by_cgroups)
{
	const char *container;

	if (!need_cgroups("a container that makes cgroups of its own"))
		return;
	container = make_cgroup("machine.slice/marked.scope");
	if (delegate(container))
		expect_nothing_gained_inside(container, 0);
}
END_TEST

TEST(owner_of_a_container_makes_no_tenants_by_cgroups)
{
	const char *container;

	if (!need_cgroups("a user who makes cgroups of his own"))
		return;
	container = make_cgroup("machine.slice/owned.scope");
	ck_assert_int_eq(chown(container, USER, USER), 0);
	expect_nothing_gained_inside(container, USER);
}
END_TEST

static void say_hello(int socket)
{
	encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
	ck_assert_int_eq(raw_send(socket), 0);
}

static void expect_welcome(int socket)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_int_gt(reply.size, 0);
	ck_assert_int_eq(reply.message.kind, KIND_WELCOME);
	raw_reply_deinit(&reply);
}

TEST(process_moved_before_accept_belongs_to_new_cgroup)
{
	struct seen_tenant seen;
	struct fixture fixture;
	struct actor moved;
	const char *after;

	if (!need_cgroups("a process that is moved before it is accepted"))
		return;
	after = make_cgroup("after_accept");
	fixture_start(&fixture, NULL);
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	actor_connect(&moved, fixture.socket, &(struct actor_as){ .cgroup = make_cgroup("before_accept") });
	move_to(moved.pid, after);
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	say_hello(moved.socket);
	expect_welcome(moved.socket);
	ck_assert_uint_eq(take(0, moved.socket, "moved", 1, NULL), 1);
	expect_only_tenant(&fixture, after, &seen);
	ck_assert_uint_eq(seen.events, 1);
	actor_end(&moved);
	fixture_stop(&fixture);
}
END_TEST

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Two seconds were promised; one more for a busy machine. */
enum { REFUND_MS = 3000 };

static void expect_refund(const struct fixture *fixture)
{
	uint64_t closed = now_ms();

	ck_assert(eventually(status_number(fixture, "lingering") == 0));
	ck_assert_uint_le(now_ms() - closed, REFUND_MS);
}

TEST(lingering_events_count_for_the_next_cgroup)
{
	struct seen_tenants seen;
	struct actor first, second;
	struct fixture fixture;
	struct holder elsewhere;
	const char *cgroup;
	int stream = -1;

	if (!need_cgroups("a cgroup that is removed and leaves something behind"))
		return;
	cgroup = make_cgroup("reborn");
	fixture_start(&fixture, maximum);
	user_in(&first, &fixture, cgroup);
	ck_assert_uint_eq(take(USER, first.socket, "old", MAXIMUM - 1, &stream), MAXIMUM - 1);
	holder_start(&elsewhere, stream);
	close(stream);
	actor_end(&first);
	remove_cgroup(cgroup);
	ck_assert(eventually(status_number(&fixture, "lingering") == MAXIMUM - 1));

	make_cgroup("reborn");
	user_in(&second, &fixture, cgroup);
	ck_assert_uint_eq(held_as(USER, second.socket), MAXIMUM - 1);
	ck_assert_uint_eq(take(USER, second.socket, "new", MAXIMUM, NULL), 1);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_eq(seen.tenant[0].lingering, MAXIMUM - 1);
	ck_assert(is_tenant(&seen.tenant[1], cgroup));

	holder_end(&elsewhere);
	expect_refund(&fixture);
	ck_assert_uint_eq(held_as(USER, second.socket), 1);
	ck_assert_uint_eq(take(USER, second.socket, "newer", MAXIMUM, NULL), MAXIMUM - 1);
	actor_end(&second);
	fixture_stop(&fixture);
}
END_TEST

/* One life of a container: it takes what it can get, and dies. Its stream, if it got one, is with us, who survive. */
static unsigned live_and_crash(const struct fixture *fixture, unsigned life, int *ret_stream)
{
	const char *cgroup = make_cgroup("crashing");
	struct actor container;
	char event[32];
	unsigned taken;

	user_in(&container, fixture, cgroup);
	snprintf(event, sizeof(event), "life%u", life);
	taken = take(USER, container.socket, event, MAXIMUM + 1, ret_stream);
	ck_assert_uint_eq(held_as(USER, container.socket), MAXIMUM);
	ck_assert_uint_eq(status_number(fixture, "charges"), MAXIMUM);
	actor_end(&container);
	remove_cgroup(cgroup);
	return taken;
}

TEST(container_in_a_crash_loop_keeps_its_maximum)
{
	enum { LIVES = 100, SURVIVES = 20 };
	struct fixture fixture;
	unsigned taken = 0;
	int stream = -1;

	if (!need_cgroups("a container in a crash loop"))
		return;
	fixture_start(&fixture, maximum);
	for (unsigned life = 0; life < LIVES; life++) {
		/* What survives ends now and then; else nothing would ever be given again. */
		if (life % SURVIVES == 0) {
			stream = fd_close(stream);
			expect_refund(&fixture);
		}
		taken += live_and_crash(&fixture, life, &stream);
		ck_assert_uint_eq(taken, MAXIMUM * (1 + life / SURVIVES));
	}
	close(stream);
	fixture_stop(&fixture);
}
END_TEST

TEST(successive_sessions_share_the_maximum_of_the_user)
{
	enum { SESSIONS = 8 };
	struct actor sessions[SESSIONS];
	struct seen_tenant seen;
	struct fixture fixture;
	char name[64];
	unsigned taken = 0;

	if (!need_cgroups("one session scope after another"))
		return;
	fixture_start(&fixture, maximum);
	for (unsigned i = 0; i < SESSIONS; i++) {
		snprintf(name, sizeof(name), "user-%d.slice/session-%u.scope", USER, i + 1);
		user_in(&sessions[i], &fixture, make_cgroup(name));
		snprintf(name, sizeof(name), "session%u", i + 1);
		taken += take(USER, sessions[i].socket, name, 1, NULL);
	}
	ck_assert_uint_eq(taken, MAXIMUM);
	snprintf(name, sizeof(name), "user-%d.slice", USER);
	expect_only_tenant(&fixture, make_cgroup(name), &seen);
	ck_assert_uint_eq(seen.connections, SESSIONS);
	ck_assert_uint_eq(seen.events, MAXIMUM);
	for (unsigned i = 0; i < SESSIONS; i++)
		actor_end(&sessions[i]);
	fixture_stop(&fixture);
}
END_TEST

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
	user_in(&one, &fixture, rootless.one);
	user_in(&another, &fixture, rootless.another);
	ck_assert_uint_eq(take(USER, one.socket, "one", MAXIMUM - 1, NULL), MAXIMUM - 1);
	ck_assert_uint_eq(take(USER, another.socket, "another", MAXIMUM, NULL), 1);
	expect_only_tenant(&fixture, rootless.manager, &seen);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

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

TEST(policy_makes_rootless_containers_tenants)
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
	user_in(&one, &fixture, rootless.one);
	user_in(&another, &fixture, rootless.another);
	user_in(&shell, &fixture, rootless.shell);
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
END_TEST

/* Users. */

TEST(passed_connection_is_charged_to_its_creator)
{
	struct seen_tenants seen;
	struct fixture fixture;
	struct actor maker, taker;
	const char *makers, *takers;

	if (!need_cgroups("a connection that is handed to another tenant"))
		return;
	makers = make_cgroup("makers");
	takers = make_cgroup("takers");
	fixture_start(&fixture, maximum);
	actor_connect(&maker, fixture.socket, &(struct actor_as){ .cgroup = makers });
	actor_start(&taker, fixture.socket, &(struct actor_as){ .cgroup = takers });
	/* It is not even there any more, and never said a word. */
	ck_assert(eventually(status_number(&fixture, "connections") == 2));
	actor_leave(&maker);
	say_hello(maker.socket);
	expect_welcome(maker.socket);
	ck_assert_uint_eq(take(0, maker.socket, "handed", MAXIMUM + 1, NULL), MAXIMUM);
	ck_assert_uint_eq(take(0, taker.socket, "own", 1, NULL), 1);
	see_tenants(&fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert(is_tenant(&seen.tenant[0], makers));
	ck_assert_uint_eq(seen.tenant[0].events, MAXIMUM);
	ck_assert(is_tenant(&seen.tenant[1], takers));
	ck_assert_uint_eq(seen.tenant[1].events, 1);
	actor_end(&taker);
	actor_end(&maker);
	fixture_stop(&fixture);
}
END_TEST

/* Sends a request as that user, and expects to be cut off, and that all that the connection held is released. */
static void expect_wrong_user(const struct fixture *fixture, uid_t uid, int socket, uint16_t kind)
{
	speak_as(uid);
	raw_packet(kind);
	if (kind == KIND_HELLO)
		encode_hello(raw_packet(kind), &(struct wire_hello){ 0 });
	ck_assert_int_eq(raw_send(socket), 0);
	speak_as(geteuid());
	expect_cut(socket, REFUSAL_WRONG_USER);
	ck_assert(eventually(status_number(fixture, "connections") == 0));
	ck_assert(log_has(fixture, "wrong-user"));
}

TEST(other_user_is_refused_on_a_passed_connection)
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
		actor_start(&maker, fixture.socket, &(struct actor_as){ .uid = handed[i].maker });
		ck_assert_uint_eq(take(handed[i].maker, maker.socket, "held", 2, NULL), 2);
		expect_wrong_user(&fixture, handed[i].taker, maker.socket, KIND_QUERY);
		ck_assert_uint_eq(status_number(&fixture, "leases"), 0);
		actor_end(&maker);
		fixture_stop(&fixture);
	}
}
END_TEST

TEST(other_user_sends_no_hello_on_a_passed_connection)
{
	struct fixture fixture;
	struct actor maker;

	if (!need_root("a hello of another user"))
		return;
	fixture_start(&fixture, NULL);
	actor_connect(&maker, fixture.socket, &(struct actor_as){ .uid = USER });
	expect_wrong_user(&fixture, OTHER_USER, maker.socket, KIND_HELLO);
	actor_end(&maker);
	fixture_stop(&fixture);
}
END_TEST

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

TEST(set_user_id_program_may_send_as_its_real_user)
{
	struct fixture fixture;
	struct actor program;

	if (!need_root("a set-user-ID program"))
		return;
	fixture_start(&fixture, NULL);
	if (may_set_user_id(&fixture)) {
		start_set_user_id(&program, &fixture);
		/* Its forks do, and one that has become what it runs as for good. */
		ck_assert_uint_eq(register_as(USER, program.socket, "real"), 0);
		ck_assert_uint_eq(register_as(OTHER_USER, program.socket, "effective"), 0);
		ck_assert_uint_eq(status_number(&fixture, "leases"), 2);
		expect_wrong_user(&fixture, 0, program.socket, KIND_QUERY);
		actor_end(&program);
	}
	fixture_stop(&fixture);
}
END_TEST

/* Namespaces. */

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

TEST(process_in_namespaces_has_its_outside_identity)
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
END_TEST

static void leave_proc(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/proc", "tmpfs", 0, NULL) < 0 || access("/proc/self", F_OK) == 0)
		_exit(EXIT_FAILURE);
}

TEST(container_without_proc_is_served)
{
	struct seen_tenant tenant;
	struct fixture fixture;
	const char *container;
	struct actor client;

	if (!need_cgroups("a container without /proc"))
		return;
	container = make_cgroup("no_proc");
	fixture_start(&fixture, NULL);
	actor_start(&client, fixture.socket, &(struct actor_as){ .cgroup = container, .enter = leave_proc });
	ck_assert_uint_eq(register_as(0, client.socket, "no_proc"), 0);
	expect_only_tenant(&fixture, container, &tenant);
	actor_end(&client);
	fixture_stop(&fixture);
}
END_TEST

static void expect_cut_with(int socket, uint32_t refusal, const char *word)
{
	struct string_item sentence;
	struct raw_reply reply;
	uint32_t got = 0;

	raw_receive(socket, &reply);
	ck_assert_int_gt(reply.size, 0);
	ck_assert_int_eq(reply.message.kind, KIND_ERROR);
	ck_assert_int_eq(decode_error(reply.message.body, &got, &sentence), 0);
	ck_assert_uint_eq(got, refusal);
	ck_assert_msg(memmem(sentence.text, sentence.length, word, strlen(word)) != NULL, "%.*s says nothing of %s",
		      (int)sentence.length, sentence.text, word);
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
			expect_welcome(root.socket);
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
END_TEST

static void expect_user(const struct fixture *fixture, const struct actor_as *user, bool welcome)
{
	struct actor actor;

	actor_connect(&actor, fixture->socket, user);
	if (welcome)
		expect_welcome(actor.socket);
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
END_TEST

/* Who can't be seen. */

/*
 * Runs a part of a test as the first process of a pid namespace, with a /proc of that namespace if it is to have one. Its
 * assertions are the test's.
 */
static void run_in_a_pid_namespace(bool with_proc, void (*run)(int outside), int outside)
{
	int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), status;
	pid_t pid;

	ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
		ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
		if (with_proc)
			ck_assert_int_eq(mount("proc", "/proc", "proc", 0, NULL), 0);
		run(outside);
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	/* It has said why. */
	if (status != 0)
		_exit(EXIT_FAILURE);
	/* Nothing can be started in one whose first process has ended. */
	ck_assert_int_eq(setns(ours, CLONE_NEWPID), 0);
	close(ours);
}

/* Whatever socket it is told of, it connects to that, and hands the connection over. */
static void connect_for_others(void)
{
	char path[128] = "";

	while (read(3, path, sizeof(path) - 1) > 0) {
		struct sockaddr_un address;
		socklen_t length;
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (transport_address(path, &address, &length) < 0 ||
		    connect(fd, (struct sockaddr *)&address, length) < 0 || transport_send(3, "x", 1, &fd, 1, 0) < 0)
			_exit(EXIT_FAILURE);
		close(fd);
	}
	_exit(EXIT_SUCCESS);
}

static int connection_of(int other, const char *path)
{
	struct fdset fds = { 0 };
	char byte;

	ck_assert_int_gt(write(other, path, strlen(path) + 1), 0);
	ck_assert_msg(transport_receive_fds(other, &byte, 1, &fds, 0) == 1 && fds.count == 1, "no connection came");
	return fdset_steal(&fds, 0);
}

static void expect_unknown_peer(const struct fixture *fixture, int socket)
{
	expect_cut_with(socket, REFUSAL_UNKNOWN_PEER, "can't see");
	close(socket);
	ck_assert(log_has(fixture, "unknown-peer"));
	ck_assert_uint_eq(status_number(fixture, "tenants"), 0);
}

static void refuse_who_is_outside(int outside)
{
	struct fixture fixture;
	int inside;

	ck_assert_int_eq(getpid(), 1);
	fixture_start(&fixture, unguarded);
	expect_unknown_peer(&fixture, connection_of(outside, fixture.socket));
	inside = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(inside, "inside", NULL, NULL), 0);
	close(inside);
	fixture_stop(&fixture);
}

TEST(process_outside_the_pid_namespace_is_refused)
{
	struct holder outside = { .leash = -1 };

	if (!need_root("a daemon in a pid namespace of its own"))
		return;
	outside.pid = actor_fork(-1, &outside.leash);
	if (outside.pid == 0)
		connect_for_others();
	run_in_a_pid_namespace(true, refuse_who_is_outside, outside.leash);
	holder_end(&outside);
}
END_TEST

static void refuse_to_start(int outside _unused_)
{
	char output[2048], directory[64], socket[96], control[96];

	make_temporary_directory(directory, sizeof(directory));
	snprintf(socket, sizeof(socket), "--socket=%s/a", directory);
	snprintf(control, sizeof(control), "--control-socket=%s/b", directory);
	ck_assert_int_ne(run_command(NULL, output, sizeof(output),
				     (const char *const[]){ built("userevd"), "--foreground", "--exit-with-parent",
							    "--backend=embedded", socket, control, NULL }),
			 0);
	ck_assert_msg(strstr(output, "/proc"), "%s", output);
	ck_assert_int_eq(rmdir(directory), 0);
}

/* To whom it looks into that of others each pid is somebody else. */
TEST(daemon_with_foreign_proc_does_not_start)
{
	if (!need_root("a daemon with the /proc of others"))
		return;
	built("userevd");
	run_in_a_pid_namespace(false, refuse_to_start, -1);
}
END_TEST

TEST(hidden_process_is_refused_and_hidden_admin_served)
{
	static const char *const hiding[] = { "hidepid=1", "hidepid=2" };
	struct fixture fixture;
	struct actor hidden;

	if (!need_root("a daemon from which /proc hides others"))
		return;
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(hiding); i++) {
		ck_assert_int_eq(mount("proc", "/proc", "proc", 0, hiding[i]), 0);
		fixture_start(&fixture, NULL);
		actor_connect(&hidden, fixture.socket, &(struct actor_as){ .uid = USER });
		expect_unknown_peer(&fixture, dup(hidden.socket));
		actor_end(&hidden);
		fixture_stop(&fixture);
		ck_assert_int_eq(umount2("/proc", MNT_DETACH), 0);
	}
}
END_TEST

/* Pids. */

static bool has_peer_pidfds(void)
{
	int ends[2], pidfd = -1;
	socklen_t size = sizeof(pidfd);
	bool has;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	has = getsockopt(ends[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0;
	fd_close(pidfd);
	close(ends[0]);
	close(ends[1]);
	return has;
}

/* A process with just that pid, which lives until it is killed; false, having said so, where that can't be had. */
static bool start_with_pid(pid_t pid)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	long r = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (r == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (r < 0)
		printf("not possible here: a pid that is used again: clone3: %s\n", strerror(errno));
	ck_assert(r < 0 || r == pid);
	return r > 0;
}

TEST(reused_pid_is_not_taken_for_the_peer)
{
	struct seen_tenant seen;
	struct fixture fixture;
	struct raw_reply reply;
	struct actor first;
	const char *victim;

	if (!need_cgroups("a pid that is used again"))
		return;
	victim = make_cgroup("victim");
	fixture_start(&fixture, NULL);
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	actor_connect(&first, fixture.socket, &(struct actor_as){ .cgroup = make_cgroup("attacker") });
	say_hello(first.socket);
	actor_leave(&first);
	if (start_with_pid(first.pid)) {
		move_to(first.pid, victim);
		ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
		raw_receive(first.socket, &reply);
		if (has_peer_pidfds()) {
			ck_assert(reply.size == 0 || reply.size == -ECONNRESET);
			ck_assert_uint_eq(status_number(&fixture, "connections"), 0);
			ck_assert_uint_eq(status_number(&fixture, "tenants"), 0);
		} else {
			/* What remains then, and nobody can help: his tenant pays. */
			printf("not possible here: to tell who has the pid of another, for Linux has SO_PEERPIDFD since 6.5\n");
			expect_only_tenant(&fixture, victim, &seen);
		}
		raw_reply_deinit(&reply);
		ck_assert_int_eq(kill(first.pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(first.pid, NULL, 0), first.pid);
	}
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	close(first.socket);
	fixture_stop(&fixture);
}
END_TEST

/* One connects for us, and ends; whether we were welcome. */
static bool hello_of_who_ends(const struct sockaddr_un *address, socklen_t length, bool reap_first)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status;
	struct raw_reply reply;
	bool welcome;
	pid_t pid;

	pid = fork();
	if (pid == 0)
		_exit(connect(fd, (const struct sockaddr *)address, length) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | (reap_first ? 0 : WNOWAIT)), 0);
	encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
	raw_send(fd);
	raw_receive(fd, &reply);
	welcome = reply.size > 0;
	if (welcome)
		ck_assert_int_eq(reply.message.kind, KIND_WELCOME);
	else
		ck_assert_msg(reply.size == 0 || reply.size == -ECONNRESET, "%zd", reply.size);
	raw_reply_deinit(&reply);
	close(fd);
	if (!reap_first)
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return welcome;
}

TEST(thousand_short_lived_connections_are_all_handled)
{
	enum { TIMES = 1000 };
	unsigned welcome = 0;
	struct sockaddr_un address;
	struct fixture fixture;
	socklen_t length;
	int bystander;

	fixture_start(&fixture, NULL);
	ck_assert_int_eq(transport_address(fixture.socket, &address, &length), 0);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	for (unsigned i = 0; i < TIMES; i++)
		welcome += hello_of_who_ends(&address, length, i % 2);
	printf("of %d who connected and ended %u were looked at in time\n", TIMES, welcome);
	ck_assert(eventually(status_number(&fixture, "connections") == 1));
	ck_assert_uint_eq(raw_register(bystander, "unharmed", NULL, NULL), 0);
	close(bystander);
	fixture_stop(&fixture);
}
END_TEST

/* Fds. */

/* So that just `n` more fds can be opened, from now on. */
static void leave_fds(pid_t pid, unsigned n)
{
	struct rlimit limit;
	struct stat status;
	char path[64];

	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
	for (limit.rlim_cur = 0;; limit.rlim_cur++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%llu", (int)pid, (unsigned long long)limit.rlim_cur);
		if (lstat(path, &status) < 0 && n-- == 0)
			break;
	}
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void give_fds(pid_t pid)
{
	struct rlimit limit;

	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* What takes an fd when somebody connects, in this order. */
enum { AT_ACCEPT, AT_PIDFD, AT_CGROUP, PLACES };

TEST(connection_without_fds_to_identify_it_waits)
{
	for (unsigned place = AT_ACCEPT; place < PLACES; place++) {
		struct fixture fixture;
		uint64_t rest;
		int socket;

		fixture_start(&fixture, stays_root);
		/* But for the connection of our own, with which it was counted. */
		rest = fixture.before.fds - 1;
		ck_assert(eventually(count_fds(fixture.pid) == rest));
		leave_fds(fixture.pid, place);
		socket = raw_connect(fixture.socket);
		say_hello(socket);
		ck_assert(eventually(log_has(&fixture, "can't accept on")));
		/* It was accepted or not; nothing else was left open. */
		ck_assert_uint_eq(count_fds(fixture.pid), rest + (place != AT_ACCEPT));
		give_fds(fixture.pid);
		expect_welcome(socket);
		ck_assert_uint_eq(raw_register(socket, "late", NULL, NULL), 0);
		close(socket);
		fixture_stop(&fixture);
	}
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *const tests[] = {
		root_of_a_container_makes_no_tenants_by_cgroups,   owner_of_a_container_makes_no_tenants_by_cgroups,
		process_moved_before_accept_belongs_to_new_cgroup, lingering_events_count_for_the_next_cgroup,
		container_in_a_crash_loop_keeps_its_maximum,	   successive_sessions_share_the_maximum_of_the_user,
		rootless_containers_of_a_user_are_one_tenant,	   policy_makes_rootless_containers_tenants,
		passed_connection_is_charged_to_its_creator,	   other_user_is_refused_on_a_passed_connection,
		other_user_sends_no_hello_on_a_passed_connection,  set_user_id_program_may_send_as_its_real_user,
		process_in_namespaces_has_its_outside_identity,	   container_without_proc_is_served,
		host_root_in_a_container_is_refused_unguarded,	   host_user_namespace_is_refused_unguarded,
		process_outside_the_pid_namespace_is_refused,	   daemon_with_foreign_proc_does_not_start,
		hidden_process_is_refused_and_hidden_admin_served, reused_pid_is_not_taken_for_the_peer,
		thousand_short_lived_connections_are_all_handled,  connection_without_fds_to_identify_it_waits,
	};
	int r;

	/* As the set-user-ID program that one of them runs. */
	if (argc == 3 && streq(argv[1], "--actor"))
		actor_act(argv[2], NULL);
	cgroups_find_room();
	r = run_suite("identity", tests, ARRAY_SIZE(tests));
	cgroups_remove_all();
	return r;
}
