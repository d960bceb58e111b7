/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kernel/user_events/allocate.h"
#include "kernel/user_events/enablers.h"
#include "protocol/transport.h"

/* Enabler processes are spawned, never forked: a fork would copy every enabler. */
static int enabler_spawn(int socket, pid_t *ret)
{
	char *const argv[] = { (char[]){ "userevd-keeper" }, (char[]){ "--enabler" }, NULL };
	char *const environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	int r;

	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, socket, ENABLER_SOCKET);
	if (r == 0)
		r = posix_spawn(ret, "/proc/self/exe", &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int enabler_start(struct user_events *user_events, struct enabler_process *process)
{
	const struct timeval timeout = { .tv_sec = ENABLER_TIMEOUT };
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = process };
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	if (setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, ours, &event) < 0)
		return -errno;
	r = enabler_spawn(theirs, &process->pid);
	if (r < 0)
		return r;
	fd_close(process->fd);
	process->fd = fd_steal(&ours);
	process->broken = false;
	return 0;
}

int enabler_new(struct user_events *user_events, struct enabler_process **ret)
{
	struct enabler_process *process = keeper_allocate(sizeof(*process));
	int r;

	process->fd = -1;
	r = enabler_start(user_events, process);
	if (r < 0) {
		free(process);
		return r;
	}
	LIST_INIT(&process->mapped);
	LIST_INIT(&process->holdings);
	TAILQ_INIT(&process->asked);
	LIST_INSERT_HEAD(&user_events->enablers, process, entry);
	*ret = process;
	return 0;
}

void enabler_break(struct enabler_process *process)
{
	process->broken = true;
	if (process->pid > 0)
		kill(process->pid, SIGKILL);
}

void enabler_reap(struct enabler_process *process)
{
	enabler_break(process);
	if (process->pid > 0)
		waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

void enabler_free(struct enabler_process *process)
{
	LIST_REMOVE(process, entry);
	process->fd = fd_close(process->fd);
	enabler_reap(process);
	free(process);
}

int enabler_send(struct enabler_process *process, const struct packet *request, int fd)
{
	if (request->failed)
		return -E2BIG;
	return process->broken ? -EPIPE : transport_send(process->fd, request->data, request->size, &fd, fd >= 0, 0);
}

int enabler_receive(struct enabler_process *process, struct enabler_answer *answers, size_t n, int flags)
{
	ssize_t size;

	do
		size = recv(process->fd, answers, n * sizeof(*answers), flags);
	while (size < 0 && errno == EINTR);
	if (size == (ssize_t)(n * sizeof(*answers)))
		return 0;
	return size < 0 ? -errno : -EPIPE;
}
