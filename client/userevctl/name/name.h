/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Names of containers, from their engines: see show/tenant_name.h. */

#include "client/userevctl/show/tenant_name.h"

struct naming {
	pid_t pid; /* of the container's first process */
	char id[256];
	char name[TENANT_NAME_MAX + 1];
	char engine[ENGINE_NAME_MAX + 1];
	char pod_uid[64]; /* "": it is in none that we know of */
	char pod[TENANT_NAME_MAX + 1];
};

/* oci.c: from the state that an OCI runtime gives to its hooks. False: it is none. */
bool naming_of_oci_state(const char *state, size_t size, struct naming *ret);
/*
 * Reads the file or pipe up to its end, or for as long as something comes, and closes it. The result is freed by the caller; its size is 0
 * if it cannot be read.
 */
char *read_whole(int fd, size_t *ret_size);
/* attribute.c: writes the name beside the cgroup of `path`. 0, or a negative errno. */
int name_write(const struct cgroups *, const char *path, const char *engine, const char *name);
