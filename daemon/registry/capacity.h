/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How many events the machine has room for, ours and others'. capacity.c explains. */

#include "protocol/base/base.h"

struct registry;

/* At the start: what the backend can, and SetKernelMaximum=. */
void capacity_init(struct registry *);
/* Somebody asks, or the policy has changed: the kernel is looked at, if that was not done just now. */
void capacity_look(struct registry *);
/* One event more has been charged, or the kernel has refused one: looks if there is not much room any more. */
void capacity_note(struct registry *, bool refused);
