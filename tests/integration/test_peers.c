/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Peers that the daemon cannot see, or whose pid belongs to another process after their end. */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/sched.h>

#include "protocol/transport.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

enum { USER = 12345 };

/* Runs a part of a test as the first process of a pid namespace, with the namespace's /proc or the one from outside. */
static void run_in_a_pid_namespace(bool with_proc, void (*run)(int outside), int outside)
{
	_cleanup_(fd_closep) int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	pid_t pid;

	ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
	pid = start_process();
	if (pid == 0) {
		ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
		ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
		if (with_proc)
			ck_assert_int_eq(mount("proc", "/proc", "proc", 0, NULL), 0);
		run(outside);
		_exit(EXIT_SUCCESS);
	}
	await_success(pid);
	/* No process can be started in a namespace whose first process has ended. */
	ck_assert_int_eq(setns(ours, CLONE_NEWPID), 0);
}

/* Connects to each socket whose path it reads, and hands the connection over. */
static void connect_for_others(void)
{
	char path[128] = "";

	while (read(3, path, sizeof(path) - 1) > 0) {
		_cleanup_(fd_closep) int fd = raw_connect(path);

		ck_assert_int_eq(transport_send(3, "x", 1, &fd, 1, 0), 0);
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
	expect_status(fixture, "tenants=0");
}

static void refuse_client_outside(int outside)
{
	struct fixture fixture;
	int inside;

	ck_assert_int_eq(getpid(), 1);
	fixture_start(&fixture, (const char *const[]){ "--guard=off", NULL });
	expect_unknown_peer(&fixture, connection_of(outside, fixture.socket));
	inside = fixture_client(&fixture);
	expect_granted(inside, "inside");
	close(inside);
	fixture_stop(&fixture);
}

TEST(client_outside_the_pid_namespace_is_refused)
{
	struct holder outside = { .leash = -1 };

	if (!need_root("a daemon in a pid namespace of its own"))
		return;
	outside.pid = actor_fork(-1, &outside.leash);
	if (outside.pid == 0)
		connect_for_others();
	run_in_a_pid_namespace(true, refuse_client_outside, outside.leash);
	holder_end(&outside);
}

static void refuse_to_start(int outside _unused_)
{
	struct fixture fixture = { 0 };

	make_temporary_directory(fixture.directory, sizeof(fixture.directory));
	fixture_expect_no_start(&fixture, built("userevd"), "--backend=embedded", "/proc");
	ck_assert_int_eq(rmdir(fixture.directory), 0);
}

/* The /proc of another pid namespace shows other processes under the pids that the daemon sees. */
TEST(daemon_with_the_proc_of_others_does_not_start)
{
	if (!need_root("a daemon with the /proc of others"))
		return;
	built("userevd");
	run_in_a_pid_namespace(false, refuse_to_start, -1);
}

TEST(client_hidden_in_proc_is_refused_and_logged)
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

/* Starts a process with that pid, which lives until it is killed. False: not possible here. */
static bool start_with_pid(pid_t pid)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	long r = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (r == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	ck_assert(r < 0 || r == pid);
	return r > 0 || not_possible("a pid that is used again: clone3() fails");
}

DAEMON_TEST(process_with_a_reused_pid_is_not_mistaken, .needs_cgroups = "a pid that is used again")
{
	struct raw_reply reply;
	struct actor first;
	const char *victim = make_cgroup("victim");

	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	actor_connect(&first, fixture->socket, &(struct actor_as){ .cgroup = make_cgroup("attacker") });
	raw_say_hello(first.socket);
	actor_leave(&first);
	if (start_with_pid(first.pid)) {
		move_to(first.pid, victim);
		ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
		raw_receive(first.socket, &reply);
		if (has_peer_pidfds()) {
			ck_assert(reply.size == 0 || reply.size == -ECONNRESET);
			expect_status(fixture, "connections=0 tenants=0");
		} else {
			/* Without it the daemon takes the new process for the peer, and charges its tenant. */
			not_possible("to notice that a pid was used again, before Linux 6.5 with its SO_PEERPIDFD");
			expect_tenants(fixture, victim);
		}
		raw_reply_deinit(&reply);
		kill_process(first.pid);
	}
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	close(first.socket);
}

/* A process connects and ends; then the test says hello on the connection. Whether it was welcomed. */
static bool hello_after_the_end(const struct sockaddr_un *address, socklen_t length, bool reap_first)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status;
	struct raw_reply reply;
	bool welcome;
	pid_t pid = fork();

	if (pid == 0)
		_exit(connect(fd, (const struct sockaddr *)address, length) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | (reap_first ? 0 : WNOWAIT)), 0);
	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ 0 });
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

DAEMON_TEST(clients_that_end_at_once_are_served_or_refused)
{
	enum { TIMES = 1000 };
	unsigned welcome = 0;
	struct sockaddr_un address;
	socklen_t length;
	_cleanup_(fd_closep) int bystander = fixture_client(fixture);

	ck_assert_int_eq(transport_address(fixture->socket, &address, &length), 0);
	for (unsigned i = 0; i < TIMES; i++)
		welcome += hello_after_the_end(&address, length, i % 2);
	printf("of %d clients that connected and ended %u were served\n", TIMES, welcome);
	await_status(fixture, "connections=1");
	expect_granted(bystander, "unharmed");
}

/* An fd is needed here for a new client, in this order. */
enum { AT_ACCEPT, AT_PIDFD, AT_CGROUP, PLACES };

TEST(client_without_fds_for_its_peer_waits_or_is_dropped)
{
	enum { INHERITED = 32 };

	for (unsigned place = AT_ACCEPT; place < PLACES; place++) {
		struct fixture fixture;
		int inherited[INHERITED];
		uint64_t rest;
		int socket;

		/* With few fds altogether the daemon would not even accept: it inherits some. */
		for (unsigned i = 0; i < INHERITED; i++)
			inherited[i] = dup(STDIN_FILENO);
		fixture_start(&fixture, (const char *const[]){ "--user=root", NULL });
		for (unsigned i = 0; i < INHERITED; i++)
			close(inherited[i]);
		/* They were counted while the test's own connection was open. */
		rest = fixture.before.fds - 1;
		ck_assert(eventually(count_fds(fixture.pid) == rest));
		limit_fds_of(fixture.pid, free_fd_of(fixture.pid, place));
		socket = raw_connect(fixture.socket);
		ck_assert(eventually(log_has(&fixture, place == AT_ACCEPT ? "can't accept on" : "was dropped")));
		if (place != AT_ACCEPT)
			expect_hang_up(socket);
		/* A thread closes it. */
		ck_assert(eventually(count_fds(fixture.pid) == rest));
		limit_fds_of(fixture.pid, RLIM_INFINITY);
		if (place != AT_ACCEPT) {
			close(socket);
			socket = raw_connect(fixture.socket);
		}
		raw_say_hello(socket);
		expect_kind(socket, KIND_WELCOME);
		expect_granted(socket, "late");
		close(socket);
		fixture_stop(&fixture);
	}
}

int main(void)
{
	return run_tests_in_cgroups();
}
