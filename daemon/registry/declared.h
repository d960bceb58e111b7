/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The events that the policy declares ([Event NAME]): there from the start, whether or not a program has them. */

#include "protocol/base/base.h"

struct registry;
struct grant;

/* After a restart: keeps the last daemon's declared events until declared_adopt(). */
void declared_inherit(struct registry *);
/* Registers the events that the policy in force declares, and releases all others. Logs those that can't be registered. */
void declared_adopt(struct registry *);
/* As declared_adopt(), at the start: waits until the kernel has registered them. 0 or a negative errno of the kernel. */
int declared_begin(struct registry *);
void declared_deinit(struct registry *);
/* Whether one of the grant's leases is the daemon's own. */
bool declared_is(const struct grant *);
