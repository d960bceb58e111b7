/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* events.c: the events of the last look, as `events` and `status` print them. */

#include "client/userevctl/tracing/tracing.h"

/* As a table, or as an array: how many there are. */
size_t events_print(const struct tracing *, bool in_status);
size_t events_print_json(const struct tracing *, struct json *);
