/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A fork copies all enablers and all memory. So the keeper forks one process, the spawner, while it has neither, and the spawner forks
 * the enabler processes as children of the keeper, which waits for their end. An enabler process has the keeper's program, but maps only
 * the parts that it uses, and starts without a dynamic linker.
 */

#include "kernel/user_events/spawner.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/enabler.h"
#include "protocol/transport.h"

enum {
	SPAWNER_SOCKET = 3, /* the fd in the spawner */
	STACK_BYTES = 128 << 10,
};

/* --- in the spawner --- */

static void be_named(const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
}

static int enabler_begin(void *data)
{
	be_named("userevd-enabler");
	/* The keeper notices the spawner's end when no process has its socket. */
	close(SPAWNER_SOCKET);
	return enabler_run(*(int *)data);
}

/* Starts an enabler process with each socket that it receives, and answers with its pid or a negative errno. Returns an exit status. */
static int spawner_run(void)
{
	static _Alignas(16) char stack[STACK_BYTES];
	struct fdset fds = { 0 };
	char byte;

	be_named("userevd-spawner");
	for (;;) {
		ssize_t n = transport_receive_fds(SPAWNER_SOCKET, &byte, sizeof(byte), &fds, 0);
		pid_t pid;

		if (n == -EINTR)
			continue;
		if (n <= 0 || fds.count != 1)
			return n == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
		pid = clone(enabler_begin, stack + sizeof(stack), CLONE_PARENT | SIGCHLD, &fds.fd[0]);
		if (pid < 0)
			pid = -errno;
		fdset_deinit(&fds);
		if (transport_send(SPAWNER_SOCKET, &pid, sizeof(pid), NULL, 0, 0) < 0)
			return EXIT_FAILURE;
	}
}

/* --- in the keeper --- */

static int make_pair(unsigned timeout, int *ret_ours, int *ret_theirs)
{
	const struct timeval time = { .tv_sec = timeout };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) < 0 ? -errno : 0;
}

void spawner_end(struct spawner *spawner)
{
	spawner->fd = fd_close(spawner->fd);
	if (spawner->pid > 0) {
		kill(spawner->pid, SIGKILL);
		waitpid(spawner->pid, NULL, 0);
	}
	spawner->pid = 0;
}

static int spawner_start(struct spawner *spawner, unsigned timeout)
{
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	int r = make_pair(timeout, &ours, &theirs);

	if (r < 0)
		return r;
	spawner->pid = fork();
	if (spawner->pid < 0)
		return -errno;
	if (spawner->pid == 0) {
		/* Copies of the keeper's fds would keep files open. */
		if (dup2(theirs, SPAWNER_SOCKET) < 0 || close_range(SPAWNER_SOCKET + 1, ~0U, 0) < 0)
			_exit(EXIT_FAILURE);
		_exit(spawner_run());
	}
	spawner->fd = fd_steal(&ours);
	return 0;
}

int answer_receive(int socket, void *ret, size_t size)
{
	ssize_t n;

	do
		n = recv(socket, ret, size, 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)size)
		return 0;
	return n < 0 ? -errno : -EPIPE;
}

int spawner_spawn(struct spawner *spawner, unsigned timeout, int *ret_socket, pid_t *ret_pid)
{
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	pid_t answer = -1; /* or a negative errno */
	int r = spawner->fd < 0 ? spawner_start(spawner, timeout) : 0;

	if (r == 0)
		r = make_pair(timeout, &ours, &theirs);
	if (r < 0)
		return r;
	r = transport_send(spawner->fd, "", 1, &theirs, 1, 0);
	/* A spawner that answers has closed its copies of the keeper's fds. */
	if (r == -EPIPE || (r == 0 && answer_receive(spawner->fd, &answer, sizeof(answer)) < 0))
		keeper_fail("the process that starts processes with registrations has died");
	if (r < 0 || answer < 0)
		return r < 0 ? r : answer;
	*ret_socket = fd_steal(&ours);
	*ret_pid = answer;
	return 0;
}
