/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A library with events, linked with a program or loaded by it. */

#include "tests/integration/static_library.h"

#include "tests/integration/static_events.h"

/* Whether it is linked or loaded. */
#ifdef AS_PLUGIN
USEREV_EVENT(plugin, tick, (u32, n));
#define EMIT(n) userev_emit(plugin_tick, n)
#define IS_ON	userev_on(plugin_tick)
#else
USEREV_EVENT(library, tick, (u32, n));
#define EMIT(n) userev_emit(library_tick, n)
#define IS_ON	userev_on(library_tick)
#endif

bool library_is_on(void)
{
	return IS_ON;
}

void library_emit(uint32_t n)
{
	EMIT(n);
	userev_emit(static_shared, n);
}
