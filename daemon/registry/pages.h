/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Who watches, and where the kernel tells nobody but the page, a look at the page from time to time. */

#include "protocol/base/base.h"

struct holder;
struct registry;

/* The client begins or ceases to watch. */
void pages_watch(struct holder *, bool on);
/* The kernel reports that a bit has changed (a kernel_changed; data is the registry). */
void pages_bit_changed(void *data, uint32_t page, uint32_t bit);

void pages_init(struct registry *);
void pages_deinit(struct registry *);
