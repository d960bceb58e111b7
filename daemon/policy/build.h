/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Building a policy from text: for this folder and tests. Everything else includes policy.h.
 *
 * All memory of a policy is freed with it, so nothing is freed on the way. Once memory is short the policy is marked as failed, and is
 * not used, whatever it has by then.
 */

#include "daemon/policy/file.h"
#include "daemon/policy/policy.h"

struct policy *policy_new(void);
/* Memory that is freed with the policy, filled with zeros. NULL: no memory. */
void *policy_allocate(struct policy *, size_t size);
/* array_grow() with the policy's memory. */
void *policy_grow(struct policy *, void *array, size_t n, size_t element_size);

/* load.c. Changes the text; the policy points into it and to the name. Errors are added to the problems, here and below. */
void policy_load_text(struct policy *, const char *name, char *text, struct problems *);
/* The section of this name: "Daemon", "Event NAME" or a pattern. NULL after adding a problem. */
struct section *policy_section(struct policy *, char *name, struct policy_origin, struct problems *);
/* Assigns the value of a line "NAME=TEXT" in this section. */
void policy_assign(struct policy *, struct section *, const char *name, char *text, struct policy_origin,
		   struct problems *);
/* Parses the text into the value; a list is extended. False: `why` has a sentence about the values that are allowed. */
bool policy_value_set(struct policy *, enum policy_key, char *text, const struct policy_origin *, struct policy_value *,
		      struct text *why);
/* Checks across sections, once all files have been read. */
void policy_check_sections(const struct policy *, struct problems *);
