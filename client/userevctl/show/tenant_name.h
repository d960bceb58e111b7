/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The name of a tenant for people: that of its container or unit, from the cgroup's path. */

/* As others wrote it: not safe to show. */
struct tenant_name {
	char text[300]; /* a component of a path has at most 255 bytes */
};
struct tenant_name tenant_name(const char *path);
