/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* How many events the machine has room for, ours and foreign ones. capacity.c explains. */

#include "protocol/base/base.h"

struct registry;

/* At the start: takes the backend's capacity, and applies SetKernelMaximum=. */
void capacity_init(struct registry *);
/* Events of programs that register by themselves, of all tenants. */
uint32_t capacity_count_native(const struct registry *);
/* Reads the kernel's list of events, unless it was read within LOOK_INTERVAL, and applies the policy's margin. */
void capacity_look(struct registry *);
/* After an event was charged, or the kernel refused one: looks if there is little room left. */
void capacity_note(struct registry *, bool refused);
