/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The keeper's side of userevd-guard, which knows a keeper by its cgroup. */

#include "protocol/base/base.h"

/*
 * Has the mount of tracefs guarded by the program at `path` ("": it is not installed). The keeper's cgroup is the one of its unit
 * (`is_unit`), otherwise one that this process makes below its own and enters. 0, or a negative errno with a sentence.
 */
int keeper_guard_load(const char *path, uint64_t mount, bool is_unit, char *why, size_t size);
/* Has native events admitted on the file with this inode number, after that. 0, or a negative errno with a sentence. */
int keeper_guard_admit(const char *path, uint64_t mount, bool is_unit, uint64_t inode, char *why, size_t size);
/* Leaves and removes a cgroup that keeper_guard_load() has made. */
void keeper_guard_leave_cgroup(void);
