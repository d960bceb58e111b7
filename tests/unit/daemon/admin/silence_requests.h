/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* SILENCE, its answers, and what the kernel was told. */

#include "tests/unit/fake_kernel.h"

#define EVENT "event u32 x"

/* Items with a flag begin with '=' (the name of an event) or '<' (the cgroup of a process). */
void say_silence(struct end *admin, uint16_t asked, const char *const *items);
#define SAY(admin, asked, ...) say_silence(admin, asked, (const char *const[]){ __VA_ARGS__, NULL })

struct outcome {
	uint64_t on, off, tenants, events, files, connections;
	bool changes;
	char tenant[128];
};

/* With the numbers of the last pattern. */
struct outcome expect_done(struct end *admin, uint16_t patterns);

bool is_silent_on(uint32_t page, const char *text);
static inline bool is_silent(const struct end *end, const char *text)
{
	return is_silent_on(tenant_of(end)->number, text);
}

static inline const char *path_of(const struct end *end)
{
	return tenant_of(end)->path;
}
