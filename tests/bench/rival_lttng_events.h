/* SPDX-License-Identifier: GPL-2.0-or-later */

/* No guard: lttng-ust includes it again and again. */

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER userevd_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/rival_lttng_events.h"

#if !defined(RIVAL_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define RIVAL_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(userevd_bench, turned, LTTNG_UST_TP_ARGS(uint32_t, turn, uint64_t, cost),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, turn, turn)
						       lttng_ust_field_integer(uint64_t, cost, cost)))

#endif

#include <lttng/tracepoint-event.h>
