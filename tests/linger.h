/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* An fd whose last close takes long, for tests that no program waits for it. */

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/suite.h"

enum { LINGER_SECONDS = 5 };

struct lingerer {
	int fd;	  /* full, and lingers */
	int peer; /* never reads */
};

static inline struct lingerer lingerer_new(void)
{
	static const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	static const char much[65536];
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(address);
	struct lingerer lingerer;

	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	lingerer.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(lingerer.fd, (struct sockaddr *)&address, length), 0);
	lingerer.peer = accept(listener, NULL, NULL);
	ck_assert_int_ge(lingerer.peer, 0);
	close(listener);
	while (send(lingerer.fd, much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	ck_assert_int_eq(setsockopt(lingerer.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return lingerer;
}

/* Sends the only fd with these bytes. The peer is returned. */
static inline int lingerer_send(int socket, const void *bytes, size_t size)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *header = (struct cmsghdr *)(void *)control;
	struct lingerer lingerer = lingerer_new();

	*header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				    .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(header), &lingerer.fd, sizeof(int));
	ck_assert_int_eq(sendmsg(socket, &message, 0), (ssize_t)size);
	close(lingerer.fd);
	return lingerer.peer;
}

static inline time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Whether the time since then is shorter than the lingering. */
static inline bool did_not_linger(time_t since)
{
	return seconds_now() - since < LINGER_SECONDS - 1;
}

/* Waits until another thread has closed its fds. */
static inline void wait_for_open_fds(int n)
{
	while (count_open_fds() != n)
		sched_yield();
}
