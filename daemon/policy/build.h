/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Building a policy from text: for load.c and tests. Everything else includes policy.h. */

#include "daemon/policy/policy.h"

struct policy *policy_new(void);
/* load.c. Changes the text of the file. 0 or -ENOMEM; errors in it become problems. */
int policy_load_text(struct policy *, const char *name, char *text, struct problems *);
/* A copy of the file's name that lives as long as the policy; NULL: no memory. */
const char *policy_add_file(struct policy *, const char *path);
/* The section of this name: "Daemon", "Event NAME" or a pattern. 0, POLICY_E_WRONG with a problem, or -ENOMEM. */
int policy_section(struct policy *, const char *name, struct place, struct problems *, struct section **ret);
/* "Key=value" in this section. 0 or -ENOMEM; errors become problems. */
int policy_assign(struct policy *, struct section *, const char *name, const char *text, struct place,
		  struct problems *);
/* Checks across sections, once all files have been read. */
void policy_check_sections(const struct policy *, struct problems *);
