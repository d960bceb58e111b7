/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A copy of the last policy without errors, in a directory, for the next daemon. last_policy.c explains. */

#include <sys/types.h>
#include <time.h>

#include "daemon/policy/policy.h"

/*
 * The policy of the copy, and when it was written. `user`: the user that the daemon becomes, which may have written it. 0; or a
 * negative errno with a sentence.
 */
int last_policy_read(const char *directory, uid_t user, struct policy **ret, time_t *ret_since, struct text *why);
/* Puts this copy in the place of the old one, and waits for the disk. 0 or a negative errno. */
int last_policy_keep(const char *directory, const struct policy_copy *);
