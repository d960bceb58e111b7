/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/unprivileged.h"

#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/process/log.h"
#include "kernel/privileges.h"

void unprivileged_hide(void)
{
#ifdef __SANITIZE_ADDRESS__
	/* Otherwise the leak checker cannot trace its own process without root. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#else
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

int unprivileged_find(const char *name, struct user *ret)
{
	const struct passwd *user;

	*ret = (struct user){ geteuid(), getegid() };
	if (ret->uid != 0)
		return 0;
	user = getpwnam(name ? name : "userevd");
	if (!user && !name)
		user = getpwnam("nobody");
	if (!user) {
		log_error("there is no user '%s'; give another --user", name ? name : "nobody");
		return -ENOENT;
	}
	*ret = (struct user){ user->pw_uid, user->pw_gid };
	return 0;
}

/* The daemon's end of the socket is closed when the daemon has exited, in any way. */
static _Noreturn void janitor_run(int socket, void (*remove)(void *), void *data)
{
	char byte;

	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_NAME, "userevd-janitor");
	/* Copies of the daemon's fds would keep files and connections open. */
	if (close_range((unsigned)socket + 1, ~0U, 0) < 0 ||
	    (socket > 0 && close_range(0, (unsigned)socket - 1, 0) < 0)) {
		log_warning("no janitor (%s): the sockets' files will not be removed", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (send(socket, "", 1, MSG_NOSIGNAL) == 1)
		while (read(socket, &byte, 1) < 0 && errno == EINTR)
			;
	remove(data);
	_exit(EXIT_SUCCESS);
}

/* Returns when the janitor has closed its copies: epoll would go on reporting events of an fd that this process closes meanwhile. */
static int janitor_start(struct janitor *janitor, void (*remove)(void *), void *data)
{
	int ends[2], r;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	janitor->pid = fork();
	r = janitor->pid < 0 ? -errno : 0;
	if (janitor->pid == 0) {
		close(ends[1]);
		janitor_run(ends[0], remove, data);
	}
	close(ends[0]);
	janitor->socket = ends[1];
	while (read(janitor->socket, &byte, 1) < 0 && errno == EINTR)
		;
	return r;
}

int unprivileged_become(const struct user *user, struct janitor *janitor, void (*remove)(void *), void *data)
{
	int r;

	if (user->uid == geteuid())
		return 0;
	r = janitor_start(janitor, remove, data);
	if (r == 0)
		r = privileges_become(user->uid, user->gid);
	if (r < 0)
		log_error("can't give up root's privileges: %s", strerror(-r));
	/* The change of the user has reset this to fs.suid_dumpable. */
	unprivileged_hide();
	return r;
}

bool janitor_end(struct janitor *janitor)
{
	janitor->socket = fd_close(janitor->socket);
	if (janitor->pid <= 0)
		return false;
	waitpid(janitor->pid, NULL, 0);
	return true;
}
