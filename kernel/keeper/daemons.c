/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "kernel/keeper/deposit.h"
#include "protocol/base/clock.h"

/*
 * One daemon after the other. Everything that a daemon has made and deposited stays when it ends, and bits go on changing; the next
 * daemon takes it over, and tells the keeper with KERNEL_DISOWN. If a deposit makes daemons crash, that must not go on for ever: the keeper counts
 * daemons that end before KERNEL_DISOWN, and after some in a row it drops everything.
 */

enum { DEATHS_MAX = 8 };

struct daemons {
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

int keeper_accept(int listener, uid_t owner, int *ret)
{
	_cleanup_(fd_closep) int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (connection < 0)
		return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ? 0 : -errno;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || (peer.uid != owner && peer.uid != 0)) {
		fprintf(stderr, "userevd-keeper: refused a connection: peer uid %u is not the socket's owner\n",
			peer.uid);
		return 0;
	}
	*ret = fd_steal(&connection);
	return 1;
}

/* 1 with a daemon's socket, 0 when the time is over or after SIGTERM, or a negative errno of the kernel or the listener. */
static int daemons_poll(struct daemons *daemons, int stop, int *ret)
{
	const int64_t end = clock_ms() + (int64_t)daemons->hold * 1000;
	struct pollfd ask[] = {
		{ .fd = daemons->listener, .events = POLLIN },
		{ .fd = daemons->kernel->fd, .events = POLLIN },
		{ .fd = stop, .events = POLLIN },
	};
	int r = 0;

	while (r == 0) {
		const int64_t left = end - clock_ms();
		const int n = poll(ask, ARRAY_SIZE(ask), (int)MIN(MAX(left, 0), INT32_MAX));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 || ask[2].revents)
			return 0;
		if (ask[1].revents)
			r = kernel_dispatch(daemons->kernel);
		if (r == 0 && ask[0].revents)
			r = keeper_accept(daemons->listener, daemons->owner, ret);
	}
	return r;
}

/* While no daemon is connected SIGTERM is read here; otherwise it ends the process, and the daemon restores the next keeper. */
static int daemons_wait(struct daemons *daemons, int *ret)
{
	_cleanup_(fd_closep) int stop = -1;
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	stop = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (stop < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, NULL);
	r = daemons_poll(daemons, stop, ret);
	/* At the end it stays blocked: a second SIGTERM is like one. */
	if (r != 0)
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	return r;
}

int keeper_serve_all(int listener, uid_t owner, unsigned hold, struct kernel *kernel)
{
	struct daemons daemons = { .listener = listener, .owner = owner, .hold = hold, .kernel = kernel };
	int socket = -1, r;

	while ((r = daemons_wait(&daemons, &socket)) > 0) {
		r = keeper_serve(socket, kernel, &daemons.box);
		fd_close(socket);
		/* A daemon that sends something invalid keeps what it has deposited. */
		if (r < 0 && r != -EPROTO)
			break;
		daemons.deaths = daemons.box.taken_over ? 0 : daemons.deaths + 1;
		deposit_orphan(&daemons.box);
		kernel->ops->orphan(kernel);
		if (daemons.deaths < DEATHS_MAX)
			continue;
		fprintf(stderr,
			"userevd-keeper: %u daemons have ended before they took over the state of the last daemon; "
			"discarding it (%zu deposits)\n",
			daemons.deaths, deposit_clear(&daemons.box));
		kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_DISOWN, .fd = -1 });
		daemons.deaths = 0;
	}
	deposit_clear(&daemons.box);
	return r;
}
