/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "kernel/keeper/deposit.h"

/*
 * One daemon after the other. What the last one had made and deposited stays while there is none, and bits go on changing;
 * the next one takes it over and says so (KERNEL_DISOWN). Should what is deposited be what daemons die of, it must not go on
 * for ever: those that end without having said so are counted, and after some in a row the next one finds nothing.
 */

enum { DEATHS_MAX = 8 };

struct succession {
	int listener;
	uid_t owner;
	unsigned hold; /* seconds */
	struct kernel *kernel;
	struct deposit_box box;
	unsigned deaths; /* in a row */
};

uid_t keeper_find_owner(int listener)
{
	struct sockaddr_un address = { 0 };
	socklen_t length = sizeof(address) - 1;
	struct stat status;

	if (getsockname(listener, (struct sockaddr *)&address, &length) < 0 || stat(address.sun_path, &status) < 0)
		return 0;
	return S_ISSOCK(status.st_mode) ? status.st_uid : 0;
}

static bool is_daemon(int connection, uid_t owner)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);

	return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
	       (credentials.uid == owner || credentials.uid == 0);
}

int keeper_accept(int listener, uid_t owner, int *ret)
{
	_cleanup_(fd_closep) int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (connection < 0)
		return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ? 0 : -errno;
	if (!is_daemon(connection, owner)) {
		fprintf(stderr, "userevd-keeper: who connected is not the socket's owner, and was turned away\n");
		return 0;
	}
	*ret = fd_steal(&connection);
	return 1;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What `stop` tells is taken from the process's ordinary fate only while nobody would take over what dies with it. */
static void hold_signal(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(how, &set, NULL);
}

static int open_stop(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

enum { OVER = 2 };

/* 1 with a daemon's socket, OVER, 0: neither yet, or a negative errno: the kernel's, or the listener's. */
static int wait_once(struct succession *succession, int stop, int64_t patience, int *ret)
{
	struct pollfd ask[] = {
		{ .fd = succession->listener, .events = POLLIN },
		{ .fd = succession->kernel->fd, .events = POLLIN },
		{ .fd = stop, .events = POLLIN },
	};
	int n = poll(ask, ARRAY_SIZE(ask), (int)MIN(MAX(patience, 0), INT32_MAX)), r = 0;

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0 || ask[2].revents)
		return OVER;
	if (ask[1].revents)
		r = kernel_dispatch(succession->kernel);
	return r == 0 && ask[0].revents ? keeper_accept(succession->listener, succession->owner, ret) : r;
}

static int wait_for_daemon(struct succession *succession, int stop, int *ret)
{
	const int64_t end = now_ms() + (int64_t)succession->hold * 1000;
	int r;

	do
		r = wait_once(succession, stop, end - now_ms(), ret);
	while (r == 0);
	return r == OVER ? 0 : r;
}

static int next_daemon(struct succession *succession, int *ret)
{
	int stop = open_stop(), r;

	if (stop < 0)
		return stop;
	hold_signal(SIG_BLOCK);
	r = wait_for_daemon(succession, stop, ret);
	/* Two at once end it like one. */
	if (r != 0)
		hold_signal(SIG_UNBLOCK);
	fd_close(stop);
	return r;
}

static void give_up(struct succession *succession)
{
	size_t n = deposit_clear(&succession->box);

	fprintf(stderr,
		"userevd-keeper: %u daemons have ended before they took over what the last one had left; "
		"the next one finds nothing of it (%zu deposits)\n",
		succession->deaths, n);
	kernel_tell(succession->kernel, (struct kernel_call){ .op = KERNEL_DISOWN, .fd = -1 });
	succession->deaths = 0;
}

static void bury(struct succession *succession)
{
	succession->deaths = succession->box.taken_over ? 0 : succession->deaths + 1;
	deposit_orphan(&succession->box);
	kernel_orphan(succession->kernel);
	if (succession->deaths == DEATHS_MAX)
		give_up(succession);
}

static int serve_next(struct succession *succession)
{
	int socket = -1, r;

	r = next_daemon(succession, &socket);
	if (r <= 0)
		return r;
	r = keeper_serve(socket, succession->kernel, &succession->box);
	fd_close(socket);
	/* One that asks for nonsense is no reason to let go of what it has deposited. */
	if (r < 0 && r != -EPROTO)
		return r;
	bury(succession);
	return 1;
}

int keeper_serve_all(int listener, uid_t owner, unsigned hold, struct kernel *kernel)
{
	struct succession succession = { .listener = listener, .owner = owner, .hold = hold, .kernel = kernel };
	int r;

	while ((r = serve_next(&succession)) > 0)
		;
	deposit_clear(&succession.box);
	return r;
}
