/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The users of an event: "ftrace" for the top instance, "session NAME", "userevctl-PID" of a command that runs, "instance NAME"; "perf" and
 * "other". As of now, while `used_by` is as of the last look.
 */

#include "client/userevctl/tracing/catalogue.h"
#include "protocol/base/text.h"

struct users {
	char **name;
	size_t n;
};
void users_find(const struct event *, struct users *ret);
void users_put(const struct event *, struct text *to); /* "ftrace, perf" */
void users_deinit(struct users *);
