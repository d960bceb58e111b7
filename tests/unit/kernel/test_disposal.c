/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/disposal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "protocol/transport.h"
#include "tests/linger.h"

static const char *release;
static int watched = -1;
static _Atomic pid_t closer;

int uname(struct utsname *ret)
{
	int r = (int)syscall(SYS_uname, ret);

	if (release)
		string_copy(ret->release, sizeof(ret->release), release);
	return r;
}

int close(int fd)
{
	if (fd == watched)
		closer = gettid();
	return (int)syscall(SYS_close, fd);
}

static int pair_with_a_lingerer(int *ret_theirs, int *ret_peer)
{
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
	*ret_theirs = fd[1];
	*ret_peer = lingerer_send(fd[1], "x", 1);
	return fd[0];
}

static bool hangs_up(int fd, int timeout_ms)
{
	struct pollfd ask = { .fd = fd };

	return poll(&ask, 1, timeout_ms) == 1 && ask.revents & POLLHUP;
}

TEST(close_keeps_errno)
{
	int before = count_open_fds(), fd = dup(STDIN_FILENO);

	errno = ERANGE;
	ck_assert_int_eq(disposal_close(-1), -1);
	ck_assert_int_eq(disposal_close(fd), -1);
	ck_assert_int_eq(errno, ERANGE);
	wait_for_open_fds(before);
}

TEST(close_is_direct_if_kernel_refuses_fds)
{
	int before = count_open_fds(), fd = dup(STDIN_FILENO);

	transport_fds_are_refused = true;
	ck_assert_int_eq(disposal_close(fd), -1);
	ck_assert_int_eq(count_open_fds(), before);
	transport_fds_are_refused = false;
}

TEST(close_with_lingering_fd_does_not_wait)
{
	int before = count_open_fds(), theirs, peer, ours = pair_with_a_lingerer(&theirs, &peer);
	time_t began = seconds_now();

	disposal_close(ours);
	/* The other end sees this at once. */
	ck_assert(hangs_up(theirs, 0));
	ck_assert(did_not_linger(began));
	close(theirs);
	close(peer);
	wait_for_open_fds(before);
}

/* Which thread closes a socket without unread packets on a kernel of that release. */
static pid_t closer_on(const char *kernel)
{
	int before = count_open_fds(), pair[2];

	release = kernel;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	watched = pair[0];
	disposal_close(pair[0]);
	close(pair[1]);
	wait_for_open_fds(before);
	return closer;
}

/* There, closing any socket may free garbage of sockets, with lingering files of other programs. */
TEST(thread_closes_all_sockets_before_linux_6_9)
{
	ck_assert_int_ne(closer_on("6.8.12-generic"), gettid());
}

TEST(thread_closes_all_sockets_before_linux_6)
{
	ck_assert_int_ne(closer_on("5.18.0"), gettid());
}

TEST(empty_socket_is_closed_at_once_since_6_9)
{
	ck_assert_int_eq(closer_on("6.9.0-rc1"), gettid());
}

TEST(last_packet_arrives_before_the_end)
{
	int before = count_open_fds(), theirs, peer, ours = pair_with_a_lingerer(&theirs, &peer);
	char byte;

	ck_assert_int_eq(send(ours, "y", 1, 0), 1);
	disposal_close(ours);
	wait_for_open_fds(before + 2);
	ck_assert_int_eq(recv(theirs, &byte, 1, 0), 1);
	ck_assert_int_eq(recv(theirs, &byte, 1, 0), 0);
	close(theirs);
	close(peer);
}

TEST(later_closes_do_not_wait)
{
	int before = count_open_fds(), theirs[20], peer[20], pipes[2];
	time_t began;

	for (size_t i = 0; i < ARRAY_SIZE(peer); i++) {
		int ours = pair_with_a_lingerer(&theirs[i], &peer[i]);

		began = seconds_now();
		disposal_close(ours);
	}
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	disposal_close(pipes[1]);
	ck_assert(hangs_up(pipes[0], -1));
	ck_assert(did_not_linger(began));
	close(pipes[0]);
	for (size_t i = 0; i < ARRAY_SIZE(peer); i++) {
		close(theirs[i]);
		close(peer[i]);
	}
	wait_for_open_fds(before);
}

TEST(more_sockets_than_can_wait_are_closed)
{
	int before = count_open_fds(), theirs, peer, ours = pair_with_a_lingerer(&theirs, &peer);
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(limit.rlim_max, 3 * DISPOSAL_MAX);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	disposal_close(ours);
	for (int n = 0; n < 5 * DISPOSAL_MAX;) {
		int fd = dup(STDIN_FILENO);

		if (fd < 0)
			continue;
		n++;
		disposal_close(fd);
	}
	close(theirs);
	close(peer);
	wait_for_open_fds(before);
}

static volatile sig_atomic_t signals;

static void on_signal(int number _unused_)
{
	signals++;
}

/* The disposal thread takes no signal of the program. */
TEST(signals_go_to_other_threads)
{
	int before = count_open_fds();
	sigset_t set;

	disposal_close(dup(STDIN_FILENO));
	wait_for_open_fds(before);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	signal(SIGUSR1, on_signal);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR1);
	/* The thread would have taken it by the end of the next close. */
	disposal_close(dup(STDIN_FILENO));
	wait_for_open_fds(before);
	ck_assert_int_eq(signals, 0);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	ck_assert_int_eq(signals, 1);
}
