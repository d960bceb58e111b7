/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A file in the state directory, for the next daemon. */

#include <sys/stat.h>

#include "protocol/base/base.h"

/*
 * The whole file, with a NUL behind it, and its state. 0; -EPERM: a user could have written it that is neither root nor `user`, which
 * the daemon is or becomes; or another negative errno.
 */
int state_file_read(const char *directory, const char *name, uid_t user, char **ret, size_t *ret_size,
		    struct stat *ret_status);
/*
 * Writes another file, and renames it: one complete file exists whenever this process ends; with `sync`, also whenever the machine stops.
 * 0 or a negative errno.
 */
int state_file_write(const char *directory, const char *name, const char *bytes, size_t size, bool sync);
