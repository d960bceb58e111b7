/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Linked with --wrap=daemon_run: what stands before that is root's, where a unit is the user that it is to be from its beginning. */

#include "daemon/daemon.h"
#include "tests/systemd/confine.h"

static const struct sock_filter allowed[] = {
	BEGIN_ALLOWED,
#include "userevd_syscalls.h"
	RETURN(SECCOMP_RET_KILL_PROCESS),
};

int __real_daemon_run(struct daemon *);
int __wrap_daemon_run(struct daemon *);

int __wrap_daemon_run(struct daemon *daemon)
{
	confine(allowed, ARRAY_SIZE(allowed));
	return __real_daemon_run(daemon);
}
