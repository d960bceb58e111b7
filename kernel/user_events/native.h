/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* KERNEL_NATIVE…: what programs that register by themselves need, and what the daemon needs to keep them to its policy. */

#include "kernel/user_events/user_events.h"

int on_native(struct user_events *, struct kernel_call *, const struct target *);
int on_native_allow(struct user_events *, struct kernel_call *, const struct target *);
