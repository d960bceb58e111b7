/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A tail of this tenant's own events, for a program that has neither the control socket nor tracefs, as in a container. The daemon gives it
 * a socket to which the tenant's programs write their records.
 */

#include "client/userevctl/ctl.h"
#include "client/userevctl/tracing/record.h"

struct tracing;

/* Whether a tail has to be one of these: `asked`, or nothing else is possible here. */
bool own_tail_is_wanted(const struct ctl *, bool asked);
/* A tracing with such a tail. Fails with EXIT_USAGE where an option needs the machine's tracer. */
int own_tail_open(struct ctl *, const char *command, const char *option, struct tracing **ret);
