/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How a policy comes to be: for policy_load.c alone. Whoever looks into one has policy.h. */

#include "daemon/policy.h"

struct section;

struct policy *policy_new(void);
/* A copy of the file's name that lives as long as the policy; NULL: no memory. */
const char *policy_add_file(struct policy *, const char *path);
/* The section of this name, which is "Daemon" or a pattern. 0, POLICY_E_WRONG with a problem, or -ENOMEM. */
int policy_section(struct policy *, const char *name, struct place, struct problems *, struct section **ret);
/* "Key=value" in this section. 0 or -ENOMEM; what is wrong becomes a problem. */
int policy_assign(struct policy *, struct section *, const char *name, const char *text, struct place,
		  struct problems *);
