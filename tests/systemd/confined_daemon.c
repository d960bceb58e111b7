/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Linked with --wrap=daemon_run: before that the program is root, whereas a unit starts as its user. */

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
