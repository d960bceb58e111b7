/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is closed with a socket are also the fds in packets that nobody has read, and where the sender has closed its own
 * copies, it is the last close of each: a TCP socket may linger, for as long as its owner likes, a memfd's memory may take
 * seconds to free. That is done by whoever closes the socket. (Before Linux 6.9 a close may even pick up such garbage of
 * sockets that are none of ours.) Since Linux 6.16 nobody can send us fds, and then nothing here is needed.
 *
 * One thread does it, so that a loop need not wait. It could be kept for ever, too, but a lingering close ends with a
 * signal: while there is something to close, one comes every millisecond. No pipe leads to the thread: one who runs us out
 * of fds must not win by that.
 */

#include "kernel/disposal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "protocol/transport.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
	NUDGE = SIGURG, /* nobody else uses it */
	NUDGE_NS = 1000000,
	STACK_BYTES = 128 << 10,
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

/* To this thread. False where there is none to be had: then a lingering close takes its time. */
static bool make_nudges(timer_t *ret)
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

static void nudge(timer_t timer, bool on)
{
	struct itimerspec often = { .it_value.tv_nsec = NUDGE_NS, .it_interval.tv_nsec = NUDGE_NS };

	timer_settime(timer, 0, on ? &often : &(struct itimerspec){ 0 }, NULL);
}

static int next(void)
{
	int fd = disposal.fd[disposal.first];

	disposal.first = (disposal.first + 1) % DISPOSAL_MAX;
	disposal.count--;
	pthread_cond_broadcast(&disposal.changed);
	return fd;
}

/* What is left unread would tell the other end ECONNRESET before our last words. */
static void empty(int fd)
{
	char byte;

	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0)
		;
}

static void *run(void *data _unused_)
{
	timer_t timer;
	bool nudged = make_nudges(&timer);

	pthread_mutex_lock(&disposal.lock);
	for (;;) {
		while (disposal.count == 0)
			pthread_cond_wait(&disposal.changed, &disposal.lock);
		if (nudged)
			nudge(timer, true);
		while (disposal.count > 0) {
			int fd = next();

			pthread_mutex_unlock(&disposal.lock);
			empty(fd);
			close(fd);
			pthread_mutex_lock(&disposal.lock);
		}
		if (nudged)
			nudge(timer, false);
	}
	return NULL;
}

static int start_with(pthread_attr_t *attributes)
{
	sigset_t all, before;
	pthread_t thread;
	int r;

	pthread_attr_setdetachstate(attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(attributes, STACK_BYTES);
	sigfillset(&all);
	/* It inherits that no signal is its business. */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, attributes, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static bool start(void)
{
	pthread_attr_t attributes;

	if (disposal.started)
		return true;
	if (pthread_attr_init(&attributes) != 0)
		return false;
	disposal.started = start_with(&attributes) == 0;
	pthread_attr_destroy(&attributes);
	return disposal.started;
}

static bool hand_over(int fd)
{
	bool started;

	pthread_mutex_lock(&disposal.lock);
	started = start();
	if (started) {
		while (disposal.count == DISPOSAL_MAX)
			pthread_cond_wait(&disposal.changed, &disposal.lock);
		disposal.fd[(disposal.first + disposal.count++) % DISPOSAL_MAX] = fd;
		pthread_cond_broadcast(&disposal.changed);
	}
	pthread_mutex_unlock(&disposal.lock);
	return started;
}

int disposal_close(int fd)
{
	int saved = errno;

	if (fd < 0 || transport_fds_are_refused)
		return fd_close(fd);
	/* The other end sees this at once. */
	shutdown(fd, SHUT_RDWR);
	if (!hand_over(fd))
		close(fd);
	errno = saved;
	return -1;
}
