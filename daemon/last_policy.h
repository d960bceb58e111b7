/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The policy that was in force last, kept in --state-directory= for a start with files that have errors. last_policy.c explains. */

#include "daemon/policy.h"

/* As those that may have written to the directory: root, this process, and the user that it becomes. */
struct last_policy_owners {
	uid_t uid[3];
	size_t n;
};

/* What is kept, and when it was written. 0; -ENOENT; or another negative errno with a sentence in `why`. */
int last_policy_read(const char *directory, const struct last_policy_owners *, struct policy **ret, time_t *ret_written,
		     char why[WIRE_SENTENCE_MAX + 1]);
/*
 * Writes what is to be kept beside what is kept, and waits for the disk; nothing where both are the same. Then that takes its
 * place, at once. 0 or a negative errno.
 */
int last_policy_prepare(const char *directory, const struct policy_copy *);
int last_policy_commit(const char *directory);
