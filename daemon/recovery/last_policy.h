/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The policy that was loaded last without an error, kept in a directory for the next daemon. last_policy.c explains. */

#include <sys/types.h>
#include <time.h>

#include "daemon/policy/policy.h"
#include "protocol/protocol.h"

/*
 * What is kept, and since when. `user`: the one that the daemon becomes, who may have written it. 0; or a negative errno, with a
 * sentence that says why it is not used.
 */
int last_policy_read(const char *directory, uid_t user, struct policy **ret, time_t *ret_since, struct text *why);
/* Where there is none, for the user that the daemon becomes. What that fails with is found out when it is written to. */
void last_policy_make_directory(const char *directory, uid_t user);
/* Writes what is to be kept next, and waits for the disk. 0; LAST_POLICY_SAME: that is kept already; or a negative errno. */
enum { LAST_POLICY_SAME = 1 };
int last_policy_prepare(const char *directory, const struct policy_copy *);
/* What was prepared is kept from now on, in the place of what was. 0 or a negative errno. */
int last_policy_commit(const char *directory);
