/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Finds this project's other programs. */

#include <limits.h>
#include <stdio.h>

#include "protocol/base/base.h"

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
