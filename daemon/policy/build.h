/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How a policy comes to be: for policy_load.c, and for who has its text. Whoever looks into one has policy.h. */

#include "daemon/policy/policy.h"

struct section;

struct policy *policy_new(void);
/* policy_load.c. The text of a file, which is changed on the way, with a NUL behind it. 0 or -ENOMEM; what is wrong becomes a problem. */
int policy_load_text(struct policy *, const char *name, char *text, size_t length, struct problems *);
/* A copy of the file's name that lives as long as the policy; NULL: no memory. */
const char *policy_add_file(struct policy *, const char *path);
/* The section of this name, which is "Daemon" or a pattern. 0, POLICY_E_WRONG with a problem, or -ENOMEM. */
int policy_section(struct policy *, const char *name, struct place, struct problems *, struct section **ret);
/* What no single line shows, once all files have been read: policy_load() does it. What is wrong becomes a problem. */
void policy_check_sections(const struct policy *, struct problems *);
/* "Key=value" in this section. 0 or -ENOMEM; what is wrong becomes a problem. */
int policy_assign(struct policy *, struct section *, const char *name, const char *text, struct place,
		  struct problems *);
