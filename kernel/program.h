/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What programs of this project do at their start: raise a limit, find each other. */

#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>

#include "protocol/base/base.h"

/* As many fds as this process may have. */
static inline void program_raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ limit.rlim_max, limit.rlim_max });
}

/* Beside the running program, as in a build; otherwise in ../lib/userevd, as installed. 0, or -ENOENT. */
static inline int program_beside(const char *name, char *ret, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[MAX(n, 0)] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	if (snprintf(ret, size, "%s/%s", self, name) < (int)size && access(ret, X_OK) == 0)
		return 0;
	if (snprintf(ret, size, "%s/../lib/userevd/%s", self, name) < (int)size && access(ret, X_OK) == 0)
		return 0;
	return -ENOENT;
}
