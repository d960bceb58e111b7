/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Deposits, and daemons one after the other. */

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/unit/kernel/keeper/scene.h"

/* --- deposits --- */

static bool has_deposits(void)
{
	struct kernel_facts facts;

	ck_assert(message_get_facts(&last_message, &facts));
	return facts.deposits;
}

TEST(deposit_stays_until_withdrawn)
{
	struct deposit_box box = { 0 };
	SCENE_WITH_BOX(scene, &box);
	int one = some_fd(), other = some_fd(), fds = count_open_fds();

	ck_assert(has_deposits());
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 7), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask_for(scene, KERNEL_WITHDRAW, 7), KERNEL_E_NO_SUCH);
	send_deposit(scene, 7, one);
	send_deposit(scene, UINT64_MAX, other);
	expect_deposited(scene, 7, one);
	expect_deposited(scene, UINT64_MAX, other);
	/* A second deposit with its number replaces it. */
	send_deposit(scene, 7, other);
	expect_deposited(scene, 7, other);
	/* The keeper closes its copy after it has sent it. */
	wait_until(count_open_fds() == fds + 2);
	ck_assert_int_eq(ask_for(scene, KERNEL_WITHDRAW, 7), KERNEL_OK);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 7), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(deposit_clear(&box), 1);
	wait_until(count_open_fds() == fds - 1);
	ck_assert_uint_eq(scene->fake.noted, 0);
	close(one);
	close(other);
}

TEST(deposits_are_answered_in_order)
{
	struct deposit_box box = { 0 };
	SCENE_WITH_BOX(scene, &box);
	int fd = some_fd();
	struct kernel_call calls[] = {
		{ .op = KERNEL_CLEAN, .index = 10, .fd = -1 },	     deposit(1, fd),
		{ .op = KERNEL_DEPOSITED, .number = 1, .fd = -1 },   { .op = KERNEL_CLEAN, .index = 20, .fd = -1 },
		{ .op = KERNEL_CLEAN, .index = 30, .fd = -1 },	     { .op = KERNEL_PAGE_NEW, .page = 1, .fd = -1 },
		{ .op = KERNEL_DEPOSITED, .number = 404, .fd = -1 },
	};

	scene->fake.result = KERNEL_E_LINGERS;
	send_calls(scene, calls, ARRAY_SIZE(calls));
	expect_answered(scene, calls, ARRAY_SIZE(calls), 2);
	close_fds(calls, ARRAY_SIZE(calls));
	ck_assert_int_eq(calls[0].result, KERNEL_E_LINGERS);
	ck_assert_int_eq(calls[1].result, KERNEL_OK);
	ck_assert_int_eq(calls[2].result, KERNEL_OK);
	ck_assert_uint_eq(calls[4].bit, 31);
	ck_assert_int_eq(calls[5].result, KERNEL_OK);
	ck_assert_int_eq(calls[6].result, KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(scene->fake.batches, 2);
	ck_assert_uint_eq(scene->fake.noted, 4);
	ck_assert_int_eq(hang_up(scene), 0);
	deposit_clear(&box);
	close(fd);
}

TEST(keeper_of_one_daemon_takes_no_deposits)
{
	READY_SCENE(scene);
	int fd = some_fd();
	struct kernel_call call = deposit(1, fd);

	ck_assert(!has_deposits());
	scene->fake.result = KERNEL_E_UNSUPPORTED;
	send_calls(scene, &call, 1);
	expect_answered(scene, &call, 1, 0);
	ck_assert_int_eq(call.result, KERNEL_E_UNSUPPORTED);
	ck_assert_int_eq(hang_up(scene), 0);
	close(fd);
}

/* There is room for one fd; the calls behind it are carried out, or fail. */
TEST(call_with_lost_fd_fails)
{
	struct deposit_box box = { 0 };
	SCENE_WITH_BOX(scene, &box);
	int fd = some_fd(), spare = dup(fd);
	struct rlimit limit, few;
	struct kernel_call calls[] = { deposit(1, fd),
				       { .op = KERNEL_CLEAN, .fd = -1 },
				       deposit(2, fd),
				       { .op = KERNEL_STREAM_ADOPT, .fd = fd } };

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){ (rlim_t)spare + 1, limit.rlim_max };
	close(spare);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	send_calls(scene, calls, ARRAY_SIZE(calls));
	expect_answered(scene, calls, ARRAY_SIZE(calls), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, i < 2 ? KERNEL_OK : -EMFILE);
	ck_assert_uint_eq(scene->fake.noted, 1);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(deposit_clear(&box), 1);
	close(fd);
}

/* --- daemons, one after the other --- */

TEST(deposits_outlive_the_daemon)
{
	SCENE_OF_MANY(scene, 1);
	int fd = some_fd(), fds;

	next_daemon(scene);
	/* Without both ends of this connection. (The keeper's thread has just begun.) */
	fds = count_open_fds() - 2;
	ck_assert(has_deposits());
	send_deposit(scene, 5, fd);
	next_daemon(scene);
	expect_deposited(scene, 5, fd);
	ck_assert_uint_eq(scene->fake.orphaned, 1);
	/* No other daemon connects. */
	ck_assert_int_eq(hang_up(scene), 0);
	wait_until(count_open_fds() == fds);
	close(fd);
}

TEST(other_user_is_refused)
{
	SCENE_OF_MANY(scene, 1);
	int status;
	char byte;
	pid_t pid;

	ck_assert_int_eq(chmod(scene_directory, 0711), 0);
	ck_assert_int_eq(chmod(scene_address, 0777), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	/* Only root can become another user. */
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) < 0 ? 0 : (int)recv(connect_daemon(), &byte, 1, 0));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	next_daemon(scene);
	disown(scene);
	ck_assert_int_eq(hang_up(scene), 0);
}

/* Calls that it has sent are carried out; the fds of their answers are closed. */
TEST(gone_daemons_pages_and_streams_stay)
{
	SCENE_OF_MANY(scene, 1);
	int fds;

	next_daemon(scene);
	fds = count_open_fds();
	send_calls(scene, examples, 2);
	/* An answer that the daemon has not read. */
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = scene->daemon, .events = POLLIN }, 1, 30000), 1);
	scene->fake.held = true;
	dispatch_kernel(scene);
	send_calls(scene, examples + 4, 3);
	scene->daemon = fd_close(scene->daemon);
	scene->fake.held = false;
	next_daemon(scene);
	ck_assert_uint_eq(scene->fake.noted, 5);
	ck_assert(nothing_is_received(scene));
	ck_assert_int_eq(count_open_fds(), fds);
	ck_assert_int_eq(hang_up(scene), 0);
}

TEST(invalid_packet_keeps_deposits)
{
	SCENE_OF_MANY(scene, 1);
	int fd = some_fd();

	next_daemon(scene);
	send_deposit(scene, 5, fd);
	ck_assert_int_eq(transport_send(scene->daemon, "nonsense", 8, NULL, 0, 0), 0);
	receive(scene, MESSAGE_FAILED);
	expect_ended(scene, scene->daemon);
	next_daemon(scene);
	expect_deposited(scene, 5, fd);
	ck_assert_int_eq(hang_up(scene), 0);
	close(fd);
}

static size_t count_noted(const struct scene *scene, enum kernel_op op)
{
	size_t n = 0;

	for (size_t i = 0; i < scene->fake.noted; i++)
		n += scene->fake.note[i].call.op == op;
	return n;
}

enum { DEATHS = 8 };

/* A daemon that has taken over begins a new count. */
TEST(deposits_of_crashing_daemons_are_dropped)
{
	SCENE_OF_MANY(scene, 1);
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	next_daemon(scene);
	send_deposit(scene, 5, pair[1]);
	for (unsigned i = 0; i < DEATHS - 1; i++)
		next_daemon(scene);
	expect_deposited(scene, 5, pair[1]);
	disown(scene);
	for (unsigned i = 0; i < DEATHS; i++) {
		next_daemon(scene);
		expect_deposited(scene, 5, pair[1]);
	}
	close(pair[1]);
	ck_assert_uint_eq(count_noted(scene, KERNEL_DISOWN), 1);
	next_daemon(scene);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 5), KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(count_noted(scene, KERNEL_DISOWN), 2);
	/* A deposited connection ends for its client. */
	expect_ended(scene, pair[0]);
	ck_assert_int_eq(hang_up(scene), 0);
	close(pair[0]);
}

TEST(disown_closes_unfetched_deposits)
{
	SCENE_OF_MANY(scene, 1);
	int wanted = some_fd(), pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	next_daemon(scene);
	send_deposit(scene, 5, wanted);
	send_deposit(scene, 6, pair[1]);
	close(pair[1]);
	disown(scene);
	next_daemon(scene);
	expect_deposited(scene, 5, wanted);
	disown(scene);
	expect_ended(scene, pair[0]);
	ck_assert_int_eq(ask_for(scene, KERNEL_DEPOSITED, 6), KERNEL_E_NO_SUCH);
	expect_deposited(scene, 5, wanted);
	ck_assert_int_eq(hang_up(scene), 0);
	close(pair[0]);
	close(wanted);
}

TEST(kernel_is_dispatched_without_daemon)
{
	SCENE_OF_MANY(scene, 30);

	dispatch_kernel(scene);
	next_daemon(scene);
	scene->daemon = fd_close(scene->daemon);
	dispatch_kernel(scene);
	scene->fake.dispatch = -EIO;
	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	ck_assert_int_eq(hang_up(scene), -EIO);
}

TEST(sigterm_without_daemon_ends_keeper)
{
	SCENE_OF_MANY(scene, 3000);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	dispatch_kernel(scene); /* so it is waiting */
	ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
	ck_assert_int_eq(hang_up(scene), 0);
}
