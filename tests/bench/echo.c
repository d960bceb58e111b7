/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A server on a SEQPACKET socket that does nothing else: the costs of any broker. */

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"

enum { BACKLOG = 4096, EVENTS = 64, PACKET = 64 };

static void watch(int poll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl");
}

static void answer(int fd)
{
	char packet[PACKET];
	ssize_t n = recv(fd, packet, sizeof(packet), 0);

	if (n <= 0)
		close(fd);
	else
		send(fd, packet, (size_t)n, MSG_NOSIGNAL);
}

static _Noreturn void serve(int listener)
{
	int poll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[EVENTS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	watch(poll, listener);
	for (;;) {
		int n = epoll_wait(poll, events, EVENTS, -1);

		for (int i = 0; i < n; i++)
			if (events[i].data.fd == listener)
				watch(poll, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
			else
				answer(events[i].data.fd);
	}
}

void echo_start(struct echo *echo)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	snprintf(echo->path, sizeof(echo->path), "/tmp/userevd-echo-%d", (int)getpid());
	transport_address(echo->path, &address, &length);
	if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, BACKLOG) < 0)
		fail(echo->path);
	echo->pid = fork();
	if (echo->pid == 0)
		serve(listener);
	close(listener);
}

void echo_trip(int socket)
{
	char packet[PACKET] = { 0 };

	if (send(socket, packet, sizeof(packet), MSG_NOSIGNAL) < 0 || recv(socket, packet, sizeof(packet), 0) <= 0)
		fail("echo");
}

void echo_stop(struct echo *echo)
{
	kill(echo->pid, SIGTERM);
	waitpid(echo->pid, NULL, 0);
	unlink(echo->path);
}
