/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Lines on stderr: $USEREV_DEBUG. */

#include "protocol/base/base.h"

struct userev;

/* Each level includes the levels before it. */
enum debug { DEBUG_OFF, DEBUG_REFUSALS, DEBUG_ALL };

enum debug debug_level(void);
_printf_(3, 4) void debug_print_at(const struct userev *, enum debug least, const char *format, ...);
#define debug_print(userev, ...) debug_print_at(userev, DEBUG_ALL, __VA_ARGS__)
void debug_refusal(const struct userev *, const char *description, const char *refusal, size_t length);
