/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * For monitoring: the sums of all tenants for which a section of the policy is the nearest one. Series for each tenant would grow in number
 * as tenants come and go. A summary stays when its tenants have ended, and its section is gone: a counter never falls.
 */

#include "daemon/registry/registry.h"

/* No section has one of these names: they begin with a slash. */
#define SUMMARY_OF_NO_SECTION "none"
#define SUMMARY_OF_POLICY     "policy" /* for the events that the policy declares */

enum { SUMMARY_NAMES_MAX = 256 };

/* The name of an event that has been in the metrics. */
struct summary_name {
	UT_hash_handle by_text;
	char text[];
};

struct summary {
	uint64_t lost;
	uint64_t too_big;
	uint64_t throttled;
	uint64_t refusals[REFUSAL_MAX_];
	/* Of its present tenants, when the metrics were read last. */
	struct summary_sums {
		uint64_t tenants, events, native_events, lingering, connections, in_flight, files, leases, waiting,
			own_traces;
		uint64_t muted, blocked;
	} sums;
	struct summary_name *names;
	UT_hash_handle by_section;
	char section[];
};

/* The summary of the section that is nearest to the path. NULL: no memory. */
struct summary *summary_of_path(struct registry *, const char *path);
void summaries_deinit(struct registry *);

/*
 * The name of an event, for the metrics. NULL: this summary has so many other names that this one is left out, for as long as the daemon lives:
 * names are the clients', and series of a monitoring system stay.
 */
const struct summary_name *summary_name(struct summary *, const char *text, size_t length);
