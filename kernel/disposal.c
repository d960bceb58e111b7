/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Closing a socket also closes the fds in packets that were not read. If the sender has closed its own copies this is the last close of
 * each, and it is slow: a TCP socket may linger for as long as its owner likes, a memfd's memory may take seconds to free. The process
 * that closes the socket has to wait. (Before Linux 6.9 a close may even free such garbage of other processes' sockets.)
 *
 * So a thread closes sockets in which packets are unread, before Linux 6.9 all sockets, and a loop need not wait. The thread could be
 * blocked as well, but a signal ends a lingering close: while it is closing it gets one every millisecond. No pipe leads to the thread,
 * since a client that exhausts our fds must not benefit.
 *
 * This file can go when no supported machine runs a kernel before Linux 6.16, where sockets refuse fds (SO_PASSRIGHTS): then
 * disposal_close() is fd_close().
 */

#include "kernel/disposal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "protocol/transport.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
	NUDGE = SIGURG, /* not used otherwise */
	NUDGE_NS = 1000000,
	STACK_BYTES = 128 << 10,
	CREDENTIALS_ROOM = CMSG_SPACE(sizeof(struct ucred)),
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started;
	size_t first, count; /* in `fd`, a ring */
	int fd[DISPOSAL_MAX];
} disposal = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void on_nudge(int number _unused_)
{
}

/* A timer that sends NUDGE to this thread. False: there is none, and a lingering close takes its time. */
static bool disposal_make_timer(timer_t *ret)
{
	struct sigaction action = { .sa_handler = on_nudge, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = NUDGE };
	sigset_t set;

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&set);
	sigaddset(&set, NUDGE);
	return sigaction(NUDGE, &action, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 &&
	       timer_create(CLOCK_MONOTONIC, &event, ret) == 0;
}

/*
 * With unread packets, the other end would get ECONNRESET before our last one. An empty packet with fds is not the end: the fds of one
 * that stays keep the other end open if it is among them.
 */
static void disposal_read(int fd)
{
	ssize_t size;
	char byte;
	int next;

	do {
		size = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
		next = size == 0 ? transport_look(fd, CREDENTIALS_ROOM) : 0;
	} while (size > 0 || next > 0 || next == -EPROTO);
}

static void *disposal_run(void *data _unused_)
{
	static const struct itimerspec often = { .it_value.tv_nsec = NUDGE_NS, .it_interval.tv_nsec = NUDGE_NS }, never;
	timer_t timer;
	bool has_timer = disposal_make_timer(&timer);

	pthread_mutex_lock(&disposal.lock);
	for (;;) {
		while (disposal.count == 0)
			pthread_cond_wait(&disposal.changed, &disposal.lock);
		if (has_timer)
			timer_settime(timer, 0, &often, NULL);
		while (disposal.count > 0) {
			int fd = disposal.fd[disposal.first];

			disposal.first = (disposal.first + 1) % DISPOSAL_MAX;
			disposal.count--;
			pthread_cond_broadcast(&disposal.changed);
			pthread_mutex_unlock(&disposal.lock);
			disposal_read(fd);
			close(fd);
			pthread_mutex_lock(&disposal.lock);
		}
		if (has_timer)
			timer_settime(timer, 0, &never, NULL);
	}
	return NULL;
}

/* Holds the lock. */
static bool disposal_start(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	if (disposal.started)
		return true;
	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	/* The thread inherits the mask: signals are for the others. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	disposal.started = pthread_create(&thread, &attributes, disposal_run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return disposal.started;
}

/* Since Linux 6.9 a worker of the kernel collects garbage. Whether nothing but this socket is freed with it. */
static bool disposal_frees_nothing_else(int fd)
{
	static unsigned major, minor;
	struct utsname kernel;

	if (major == 0 && (uname(&kernel) < 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2))
		return false;
	return (major > 6 || (major == 6 && minor >= 9)) && transport_look(fd, CREDENTIALS_ROOM) == 0;
}

int disposal_close(int fd)
{
	const int saved = errno;
	bool started;

	if (fd < 0 || transport_fds_are_refused)
		return fd_close(fd);
	/* The other end sees this at once, and can send nothing more. */
	shutdown(fd, SHUT_RDWR);
	if (disposal_frees_nothing_else(fd)) {
		errno = saved;
		return fd_close(fd);
	}
	pthread_mutex_lock(&disposal.lock);
	started = disposal_start();
	while (started && disposal.count == DISPOSAL_MAX)
		pthread_cond_wait(&disposal.changed, &disposal.lock);
	if (started) {
		disposal.fd[(disposal.first + disposal.count++) % DISPOSAL_MAX] = fd;
		pthread_cond_broadcast(&disposal.changed);
	}
	pthread_mutex_unlock(&disposal.lock);
	if (!started)
		close(fd);
	errno = saved;
	return -1;
}
