/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* events.c: the events of the last look, as `events` and `status` print them. */

#include "client/userevctl/tracing/tracing.h"

void events_print_table(const struct tracing *);
/* An array. Returns how many events it has. */
size_t events_print_json(const struct tracing *, struct json *);
