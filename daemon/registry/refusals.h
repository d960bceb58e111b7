/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Refusals: counted, logged, and translated from the kernel's answers. */

#include "protocol/base/base.h"

struct registry;
struct tenant;

/* Counts a refusal, and logs one of a kind for each tenant and minute. The tenant and the event may be NULL. */
void refusal_note(struct registry *, struct tenant *, const char *event, uint32_t refusal, const char *sentence);
/* The refusal and the sentence for a client when the kernel has answered so; NULL: the answer is unexpected. */
const char *refusal_for_kernel(int answer, uint32_t *ret_refusal);
