/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The events that the policy declares ([Event NAME]): there from the start, whether or not a program has them. */

#include "protocol/base/base.h"

struct registry;
struct grant;

/* What the last daemon has held for its policy is held on, until declared_adopt() decides. */
void declared_inherit(struct registry *);
/* From now on those that the policy in force declares, and no others. What can't be made is logged. */
void declared_adopt(struct registry *);
/* The same at the start: when it returns they are there. 0 or a negative errno, of the kernel. */
int declared_begin(struct registry *);
void declared_deinit(struct registry *);
/* Whether the daemon itself has it, and the grant says so in its leases. */
bool declared_is(const struct grant *);
