/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Reports changed bits of status pages to the clients that watch them. pages.c explains. */

#include "protocol/base/base.h"

struct event;
struct holder;

/* The client begins or ceases to watch. */
void pages_watch(struct holder *, bool on);
/* Whether somebody traces the event, as the pages of its tenants show it. */
bool pages_event_is_on(const struct event *);
/* The kernel reports that a bit has changed (a kernel_changed; data is the registry). */
void pages_bit_changed(void *data, uint32_t page, uint32_t bit);
