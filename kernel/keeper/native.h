/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The file that containers get where their programs register by themselves. */

#include "protocol/base/text.h"

/* A directory with that file alone, to be mounted into containers in the place of tracefs. */
#define NATIVE_DIRECTORY "/run/userevd/native"

/*
 * Mounts the file of tracefs there, before mounts_open_tracefs() enters a mount namespace: root's alone, until the daemon
 * has tried whether the kernel holds its users to the policy. `insist`: also on a kernel that is not known to be safe for them. Returns
 * the file, opened for writing, with the number of its inode; or a negative errno with a sentence. Needs CAP_SYS_ADMIN. `is_mounted`: it
 * has to be there already.
 */
int keeper_native_mount(const char *tracefs, bool insist, bool is_mounted, uint64_t *ret_inode, struct text *why);
