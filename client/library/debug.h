/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Lines on stderr: $USEREV_DEBUG. */

#include "protocol/base/base.h"

/* Each level includes the levels before it. */
extern enum debug_level { DEBUG_OFF, DEBUG_REFUSALS, DEBUG_ALL } debug_level;

/* Reads the environment. */
void debug_init(void);
_printf_(1, 2) void debug_write(const char *format, ...);
#define debug_print(...) (debug_level < DEBUG_ALL ? (void)0 : debug_write(__VA_ARGS__))
void debug_refusal(const char *description, const char *refusal, size_t length);
