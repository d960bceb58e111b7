/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A process or a thread, from /proc/PID/status. */

#include <sys/types.h>

#include "protocol/base/base.h"

struct process_status {
	char comm[64];
	pid_t process; /* of a thread; otherwise the same pid */
	pid_t parent;
	uid_t uid; /* the effective one */
};
/* False: the process has ended, or is hidden. */
bool process_read(pid_t pid, struct process_status *ret);
