/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "client/userevctl/tracing/tracer.h"

struct quiet_wish {
	char *const *patterns;
	int n;
	uint64_t timeout_ms; /* for other tracers to end; 0: as long as it takes */
};

/* For events that were switched off: when this is EXIT_DONE, no record of them comes any more. */
int quiet_wait(struct tracing *, const struct quiet_wish *);
