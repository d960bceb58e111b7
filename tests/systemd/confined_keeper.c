/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Linked with --wrap=user_events_new: before that the program does the work of --prepare, another process of the unit. */

#include "kernel/user_events/user_events.h"
#include "tests/systemd/confine.h"

static const struct sock_filter allowed[] = {
	BEGIN_ALLOWED,
#include "userevd-keeper_syscalls.h"
	RETURN(SECCOMP_RET_KILL_PROCESS),
};

int __real_user_events_new(enum wire_backend, const struct mounts *, const struct kernel_limits *, struct kernel **ret);
int __wrap_user_events_new(enum wire_backend, const struct mounts *, const struct kernel_limits *, struct kernel **ret);

int __wrap_user_events_new(enum wire_backend backend, const struct mounts *mounts, const struct kernel_limits *limits,
			   struct kernel **ret)
{
	confine(allowed, ARRAY_SIZE(allowed));
	return __real_user_events_new(backend, mounts, limits, ret);
}
